//! oncefold-sqlite
