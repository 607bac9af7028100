//! Every metric and log setting of Oncefold in one place. What may be logged is written down in docs/logging.md.
//!
//! Invariant: labels are bounded. Never an event id, a key, or a text that nobody verified.

mod lines;
pub mod logs;
pub mod metrics;

pub use metrics::Metrics;
pub use prometheus::{Histogram, IntCounter};
