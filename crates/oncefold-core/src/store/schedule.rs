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

/// What is said of an event that waits for a verdict and whose bytes are gone.
pub const BODY_MISSING: &str = "its body is missing from held_bodies, so it cannot be sent to a worker; if the provider \
    still has it, let it be sent again";

/// What the retry scheduler needs. Many may run: each claim takes other events.
#[async_trait]
pub trait ScheduleStore: Send + Sync {
    /// Takes events that are `retrying` with `next_attempt_at <= now`, which become `queued` in the next generation, or
    /// `queued` with a lease that has run out, which stay in their generation: the queue may have it still, behind a
    /// backlog, and either copy may be given the verdict; the other is then [`super::Settled::Late`]. Both are leased,
    /// and given as messages of their generation, with their attempts so far, oldest due first.
    ///
    /// An event whose body is not held (somebody deleted it) cannot be sent: it becomes `dead`, `apply.failed`, with
    /// [`BODY_MISSING`].
    async fn claim_due(&self, claim: ClaimDue) -> Result<Vec<Message>, StoreError>;

    /// Lengthens the leases of events whose publish was confirmed: the queue has them now.
    async fn extend_leases(&self, sent: &[(EventUuid, u32)], lease_until: Timestamp) -> Result<(), StoreError>;
}
