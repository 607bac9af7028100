use super::StoreError;
use crate::id::EventUuid;
use crate::message::Message;
use crate::time::Timestamp;
use async_trait::async_trait;

/// Asks for events that are due.
#[derive(Clone, Copy, Debug)]
pub struct ClaimDue {
    /// The present moment.
    pub now: Timestamp,
    /// Until when they are ours; after that somebody sends them again.
    pub lease_until: Timestamp,
    /// At most so many.
    pub limit: u32,
}

/// What the retry scheduler needs. Many may run: each claim takes other events.
#[async_trait]
pub trait ScheduleStore: Send + Sync {
    /// Takes events that are `retrying` with `next_attempt_at <= now`, or `queued` with a lease that has run out:
    /// they become `queued` in the next generation, leased. Gives them as messages of that generation, with their
    /// attempts so far, oldest due first.
    async fn claim_due(&self, claim: ClaimDue) -> Result<Vec<Message>, StoreError>;

    /// Lengthens the leases of events whose publish was confirmed: the queue has them now.
    async fn extend_leases(&self, sent: &[(EventUuid, u32)], lease_until: Timestamp) -> Result<(), StoreError>;
}
