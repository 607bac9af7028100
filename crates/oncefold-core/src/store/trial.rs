use super::StoreError;
use crate::id::EventUuid;
use crate::time::Timestamp;
use async_trait::async_trait;

/// A suspect about to be tried alone.
#[derive(Clone, Debug)]
pub struct Trial {
    /// The message's id.
    pub id: EventUuid,
    /// Its generation.
    pub generation: u32,
    /// The process that tries it.
    pub holder: String,
    /// The present moment.
    pub now: Timestamp,
    /// Until when a mark of another process says "being tried", not "ended trying".
    pub lease_until: Timestamp,
}

/// What the mark says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrialStart {
    /// Marked: try it now.
    Begun,
    /// Another process is trying it; its lease runs until then.
    Busy(Timestamp),
    /// So many processes ended while they tried it ([`crate::limits::TRIAL_STARTS_MAX`]): `poison.delivery_limit`.
    Interrupted,
    /// The event `id` is known, and this generation's verdict was given, or it is a repeat whose event is settled.
    Settled,
}

/// What the dead-letter recorder needs beside applying.
#[async_trait]
pub trait TrialStore: Send + Sync {
    /// Commits the mark, unless one is there. A mark of the same holder is renewed. One of another holder whose lease
    /// ran out says that its process ended meanwhile, of this message or for its own reasons (a stop, an outage): it is
    /// taken over, which counts as one more start, until [`crate::limits::TRIAL_STARTS_MAX`] have begun; only then is the answer
    /// [`TrialStart::Interrupted`].
    async fn begin_trial(&self, trial: &Trial) -> Result<TrialStart, StoreError>;

    /// Removes the mark.
    async fn end_trial(&self, id: EventUuid, generation: u32) -> Result<(), StoreError>;

    /// Whether a verdict on this message is recorded: the event `id` is known and not `queued` in this generation,
    /// or (generation 0) another delivery of the same source, event id and digest is known.
    async fn is_recorded(&self, message: &crate::message::Message) -> Result<bool, StoreError>;
}
