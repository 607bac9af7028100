//! oncefold-config
