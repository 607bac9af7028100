//! oncefold-testkit
