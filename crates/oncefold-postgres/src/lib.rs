//! oncefold-postgres
