//! oncefold-testkit

pub mod builders;
pub mod fakes;
pub mod proxy;
pub mod queue_suite;
pub mod store_suite;
