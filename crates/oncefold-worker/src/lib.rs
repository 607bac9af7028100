//! The worker role: consume -> prepare -> apply -> ack, and one file per background duty.
//!
//! Invariant: a message is settled only after its verdict is committed, and nothing but a verdict counts as an
//! attempt: not an outage, not a shutdown, not a neighbour's fault.

mod consumer;
mod context;
mod duties;
mod error;
mod gate;
mod health;
mod pause;
mod report;
mod settings;
mod verdict;
mod worker;

pub use error::WorkerError;
pub use health::Health;
pub use settings::{Pace, WorkerSettings};
pub use worker::{Worker, WorkerParts, build};
