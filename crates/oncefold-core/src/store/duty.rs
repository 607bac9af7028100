use super::StoreError;
use crate::id::SourceName;
use crate::time::Timestamp;
use async_trait::async_trait;

/// Asks to hold a duty that one process at a time has.
#[derive(Clone, Debug)]
pub struct Election {
    /// The duty's name.
    pub duty: &'static str,
    /// The process that asks.
    pub holder: String,
    /// The present moment.
    pub now: Timestamp,
    /// Until when it is held, if it is.
    pub lease_until: Timestamp,
}

/// Figures of stored things.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gauges {
    /// Dead letters by source.
    pub dead_letters: Vec<(SourceName, u64)>,
    /// The oldest `received_at` of events without a verdict, by source: queued or retrying, and, where the store knows
    /// them, those no worker has seen (in the spool, in the embedded queue).
    pub oldest_unapplied: Vec<(SourceName, Timestamp)>,
}

/// What may be forgotten.
#[derive(Clone, Copy, Debug)]
pub struct Prune {
    /// The present moment.
    pub now: Timestamp,
    /// Bodies and changes of events settled before this, and deliveries rejected before it.
    pub bodies_before: Timestamp,
    /// Settled events settled before this, with their ids.
    pub ids_before: Timestamp,
    /// At most so many rows a call, where rows are deleted one by one.
    pub limit: u32,
}

/// What was forgotten. Where nothing was, nothing is left to forget.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pruned {
    /// Bodies (or whole days of them, where they are dropped by the day).
    pub bodies: u64,
    /// Changes (or whole days of them).
    pub changes: u64,
    /// Events with their ids.
    pub events: u64,
    /// Deliveries of the rejected log.
    pub rejected: u64,
}

/// What background duties need.
#[async_trait]
pub trait DutyStore: Send + Sync {
    /// Whether the duty is ours until `lease_until`: it was free, ran out, or is ours already.
    async fn elect(&self, election: &Election) -> Result<bool, StoreError>;

    /// Samples the figures.
    async fn gauges(&self) -> Result<Gauges, StoreError>;

    /// Prepares storage for the days to come (partitions on PostgreSQL).
    async fn prepare_days(&self, now: Timestamp) -> Result<(), StoreError>;

    /// Forgets what is old enough. Unsettled events and dead letters stay, whatever their age.
    async fn prune(&self, prune: &Prune) -> Result<Pruned, StoreError>;
}
