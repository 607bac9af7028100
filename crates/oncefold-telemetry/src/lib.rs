//! oncefold-telemetry
