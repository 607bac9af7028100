//! Ports of the store, cut by who uses them. One method is one transaction is one use case; time is a parameter.
//! SQLite and PostgreSQL implement them alike; the suite in the testkit holds them to it.

mod act;
mod apply;
mod duty;
mod read;
mod rejected;
mod rules;
mod schedule;
mod spool;
mod trial;

pub use act::{ActStore, Actor, Answer, Discard, Idempotency, Refusal, Replay, audit_text};
pub use apply::{ApplyBatch, ApplyItem, ApplyStore, Outcome, Settled, variant_event_id};
pub use duty::{DutyStore, Election, Gauges, Prune, Pruned};
pub use read::{
    AttemptRecord, ChangeRecord, DeadLetterGroup, EntityFilter, EntityRecord, EventFilter, EventRecord, HistoryRecord,
    ReadStore, SourceRecord, StoredBody,
};
pub use rejected::{RejectedDelivery, RejectedRecord, RejectedRequest, RejectedStore};
pub use rules::{Rule, RuleConflict, RulesStore};
pub use schedule::{BODY_MISSING, ClaimDue, ScheduleStore};
pub use spool::{ClaimSpooled, SpoolStore, Spooled};
pub use trial::{Trial, TrialStart, TrialStore};

use async_trait::async_trait;
use thiserror::Error;

/// Why a store operation failed. A variant is there only where a caller acts differently.
#[derive(Clone, Debug, Error)]
pub enum StoreError {
    /// Away, full, or shutting down (SQLSTATE classes 08, 53, 57; `SQLITE_FULL`, `SQLITE_IOERR`, …): pause and probe;
    /// nothing counts as an attempt.
    #[error("the database is not available: {0}")]
    Unavailable(String),
    /// It answers, but does not do this: a row that others hold (55P03), a time limit (57014), a right or a table that is
    /// missing (class 42). Either one event meets that, or all of them do: whether it takes other writes tells.
    #[error("the database does not do this: {0}")]
    Hindered(String),
    /// It lost against another transaction (class 40, `SQLITE_BUSY`): do it again.
    #[error("the database asks to do it again: {0}")]
    Conflict(String),
    /// It refuses values for good (classes 22 and 23).
    #[error("the database refuses a value: {0}")]
    Refused(String),
    /// It failed in another way, which may pass.
    #[error("the database failed: {0}")]
    Failed(String),
    /// Another worker has registered rules of a higher epoch: this one's config is outdated.
    #[error("the store knows rules of a higher epoch than this process: restart it with the present config")]
    RulesBehind,
}

/// Whether the store can be reached and used.
#[async_trait]
pub trait Probe: Send + Sync {
    /// One cheap round trip that would fail if work would.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] with the cause.
    async fn ping(&self) -> Result<(), StoreError>;
}

/// Everything but the spool, which only a store beside a broker has.
pub trait Store:
    Probe + ApplyStore + ScheduleStore + TrialStore + DutyStore + ReadStore + ActStore + RulesStore + RejectedStore
{
}
impl<T> Store for T where
    T: Probe + ApplyStore + ScheduleStore + TrialStore + DutyStore + ReadStore + ActStore + RulesStore + RejectedStore
{
}
