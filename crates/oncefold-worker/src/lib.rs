//! oncefold-worker
