//! oncefold-ingest
