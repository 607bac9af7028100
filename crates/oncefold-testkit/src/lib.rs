//! oncefold-testkit

pub mod builders;
pub mod queue_suite;
pub mod store_suite;
