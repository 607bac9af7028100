//! oncefold-testkit

pub mod builders;
pub mod store_suite;
