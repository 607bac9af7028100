//! oncefold
