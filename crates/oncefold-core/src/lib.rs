//! The pure core of Oncefold: names and limits, the source model, order keys, **the fold**, the event state
//! machine, the retry schedule, and the ports (`Queue` and `Store`, split by consumer) that backends implement.
//!
//! Invariant: nothing here does I/O, reads a clock, an environment or a source of randomness.

pub mod change;
pub mod event;
pub mod fold;
pub mod glob;
pub mod id;
pub mod json;
pub mod limits;
pub mod locator;
pub mod message;
pub mod model;
pub mod number;
pub mod order_key;
pub mod outline;
pub mod prepare;
pub mod queue;
pub mod reason;
pub mod retry;
pub mod store;
pub mod time;
pub mod version;

pub use change::{Change, Verdict};
pub use event::EventStatus;
pub use id::{Digest, EntityKind, EventUuid, SourceName};
pub use message::{Facts, FactsJson, Message};
pub use model::{Projection, Source};
pub use order_key::OrderKey;
pub use reason::{Failure, Reason};
pub use time::{Clock, Entropy, Timestamp};
