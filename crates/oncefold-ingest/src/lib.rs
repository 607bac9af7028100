//! The intake role: takes a provider's delivery over HTTP, verifies it over the raw bytes, makes it durable, answers.
//!
//! Invariants: a 2xx leaves only after the queue or the spool has the event; a body is read once, bounded in bytes
//! and in time, and passed on byte for byte; nothing that did not verify is kept; no log line holds a body, a
//! signature or a secret.

#[cfg(test)]
#[path = "../tests/intake/fakes.rs"]
#[allow(dead_code, reason = "shared with the tests over sockets; each side uses a part")]
mod fakes;

mod answer;
mod body;
mod certificates;
mod connection;
mod delivery;
mod detached;
mod events;
mod health;
mod inflate;
mod intake;
mod linger;
mod outbound;
mod outcome;
mod recorder;
mod rejections;
mod report;
mod server;
mod settings;
mod spooler;

pub use health::{IngestHealth, Readiness};
pub use outbound::{Outbound, OutboundAnswer};
pub use outcome::Outcome;
pub use server::{Ingest, KeyRing, build};
pub use settings::{IngestError, IngestParts, IngestSettings, IntakeSource, Respond, SourceKeys};
