//! oncefold-e2e
