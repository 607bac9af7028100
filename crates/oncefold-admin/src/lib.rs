//! oncefold-admin
