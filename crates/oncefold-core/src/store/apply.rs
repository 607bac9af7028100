use super::StoreError;
use crate::change::Verdict;
use crate::id::Digest;
use crate::message::Message;
use crate::prepare::Prepared;
use crate::queue::Settlement;
use crate::time::Timestamp;
use async_trait::async_trait;
use std::sync::Arc;

/// A batch that goes into the store in one transaction.
#[derive(Clone, Debug)]
pub struct ApplyBatch {
    /// When the verdicts are given.
    pub now: Timestamp,
    /// From [`super::RulesStore::register`]: the batch commits nothing if the store's is higher.
    pub rules_version: i64,
    /// The events, in the order they were received.
    pub items: Vec<ApplyItem>,
}

/// One event of a batch.
#[derive(Clone, Debug)]
pub struct ApplyItem {
    /// As it came from the queue.
    pub message: Arc<Message>,
    /// What is to be done with it.
    pub prepared: Prepared,
}

/// What became of one event of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Where the event stands now, or why nothing was done.
    pub settled: Settled,
    /// The event id was known with other bytes: it went into the log beside the first, under
    /// [`variant_event_id`].
    pub variant: bool,
    /// A verdict for each change, where its changes went through the guard.
    pub verdicts: Vec<Verdict>,
}

/// Where an event of a batch stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settled {
    /// Its changes went through the guard.
    Applied,
    /// No projection is about its type.
    Ignored,
    /// A failed attempt is recorded; the scheduler has it.
    Retrying,
    /// Dead, with its reason recorded.
    Dead,
    /// A repeat of an event that is settled, discarded or on its way: counted, nothing else.
    Repeat,
    /// A repeat of an event that is retrying or dead: counted, and the event is due now. The stored one is tried,
    /// so that `received_at` stays that of the first.
    Woken,
    /// A copy whose verdict was given before, or of an older generation: nothing was done.
    Late,
}

impl Settled {
    /// What becomes of the message, now that this is on record. A backend that is store and queue in one may do an ack
    /// in the transaction of the verdict.
    pub const fn settlement(self) -> Settlement {
        match self {
            Self::Dead => Settlement::Reject,
            Self::Applied | Self::Ignored | Self::Retrying | Self::Repeat | Self::Woken | Self::Late => Settlement::Ack,
        }
    }
}

/// What an event id that comes again with other bytes is kept under.
pub fn variant_event_id(event_id: &str, digest: &Digest) -> String {
    format!("{event_id}~{}", digest.to_hex())
}

/// What workers write.
///
/// For each item, in order, inside one transaction:
/// * `generation == 0` and no event `(source, event_id)`: recorded with the plan's verdict, `deliveries = 1`,
///   `attempts = 1`.
/// * `generation == 0`, the event is known with the same digest: if `id` is the event's own the verdict was given
///   before: [`Settled::Late`]. Else `deliveries` grows by one and the answer is [`Settled::Repeat`] (applied,
///   ignored, discarded, queued) or [`Settled::Woken`] (retrying: `next_attempt_at` becomes `now`; dead: `queued`,
///   generation + 1, due now).
/// * `generation == 0`, known with another digest: the same two rules under [`variant_event_id`].
/// * `generation > 0`: given a verdict only if the event `id` is `queued` in exactly that generation, else
///   [`Settled::Late`]. `attempts` grows by one.
///
/// Verdicts: `Apply` → `applied`; `Ignore` → `ignored`; `Setback::Retry` → `retrying`, an attempt row and
/// `next_attempt_at`; `Setback::Dead` → `dead`, an attempt row, the reason and `dead_at`. A first-try success writes
/// no attempt row; a success after a failure writes one. Changes of items that are given `applied` are folded with
/// [`crate::fold::fold`], winners written where `entities.order_key < excluded.order_key`, judged by
/// [`crate::fold::judge`], and every change kept with its verdict.
#[async_trait]
pub trait ApplyStore: Send + Sync {
    /// Applies a batch: everything or nothing. The outcomes are in the order of the items.
    ///
    /// # Errors
    /// Nothing is committed; see [`StoreError`] for what to do.
    async fn apply(&self, batch: ApplyBatch) -> Result<Vec<Outcome>, StoreError>;
}
