//! Messages, changes and batches for tests. Everything has a default; ids are unique within a process and grow.

use bytes::Bytes;
use oncefold_core::change::Change;
use oncefold_core::event::Setback;
use oncefold_core::id::{Digest, EntityKind, EventUuid, SourceName};
use oncefold_core::message::{Facts, FactsJson, Message};
use oncefold_core::order_key::{OrderKey, OrderKeyParts};
use oncefold_core::prepare::{Plan, Prepared};
use oncefold_core::reason::{Failure, Reason};
use oncefold_core::store::{ApplyBatch, ApplyItem};
use oncefold_core::time::{Entropy, Timestamp};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// 2026-01-02T03:04:05Z: when the tests' world begins.
pub const START: Timestamp = Timestamp::from_micros(1_767_323_045_000_000);

/// So many seconds after [`START`].
pub fn at(seconds: u64) -> Timestamp {
    START.plus(Duration::from_secs(seconds))
}

/// Counts: ids made from it are unique within the process, and of one millisecond the later is the higher.
#[derive(Debug, Default)]
pub struct CountingEntropy;

impl Entropy for CountingEntropy {
    fn fill(&self, bytes: &mut [u8]) {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let count = NEXT.fetch_add(1, Ordering::Relaxed).to_be_bytes();
        for (at, byte) in bytes.iter_mut().rev().enumerate() {
            *byte = count.iter().rev().nth(at).copied().unwrap_or(0);
        }
    }
}

/// A fresh id of an event received at `received_at`.
pub fn event_uuid(received_at: Timestamp) -> EventUuid {
    EventUuid::generate(received_at, &CountingEntropy)
}

/// The source of this name, which must be a valid one.
///
/// # Panics
/// When it is not.
pub fn source(name: &str) -> SourceName {
    SourceName::parse(name).expect("a source name")
}

/// Builds a [`Message`].
#[derive(Clone, Debug)]
pub struct MessageBuilder(Message);

/// A message of `source` known there as `event_id`, received at [`START`], of generation 0 and type `order.updated`.
///
/// # Panics
/// When `source_name` is no source name.
pub fn message(source_name: &str, event_id: &str, body: impl Into<Bytes>) -> MessageBuilder {
    let body = body.into();
    let facts = Facts { trace_id: "0".repeat(32), content_type: Some("application/json".into()), ..Facts::default() };
    MessageBuilder(Message {
        id: event_uuid(START),
        source: source(source_name),
        event_id: event_id.to_owned(),
        event_type: Some("order.updated".to_owned()),
        received_at: START,
        generation: 0,
        attempts: 0,
        digest: Digest::of(&body),
        facts: FactsJson::encode(&facts),
        body,
    })
}

impl MessageBuilder {
    /// Received then; the id follows.
    #[must_use]
    pub fn received_at(mut self, at: Timestamp) -> Self {
        self.0.received_at = at;
        self.0.id = event_uuid(at);
        self
    }

    /// With exactly this id.
    #[must_use]
    pub fn id(mut self, id: EventUuid) -> Self {
        self.0.id = id;
        self
    }

    /// Of this type.
    #[must_use]
    pub fn event_type(mut self, event_type: Option<&str>) -> Self {
        self.0.event_type = event_type.map(str::to_owned);
        self
    }

    /// Of this generation.
    #[must_use]
    pub fn generation(mut self, generation: u32) -> Self {
        self.0.generation = generation;
        self
    }

    /// With these facts.
    #[must_use]
    pub fn facts(mut self, facts: &Facts) -> Self {
        self.0.facts = FactsJson::encode(facts);
        self
    }

    /// The message.
    pub fn build(self) -> Message {
        self.0
    }
}

/// The same event delivered once more: another id, the rest alike.
pub fn repeat_of(message: &Message) -> Message {
    Message { id: event_uuid(message.received_at), ..message.clone() }
}

/// Builds a [`Change`] whose order key is made of visible parts.
#[derive(Clone, Debug)]
pub struct ChangeBuilder {
    /// The kind of entity.
    pub entity: &'static str,
    /// Which one.
    pub key: String,
    /// Most significant part of the order.
    pub epoch: u32,
    /// Then this.
    pub version: u64,
    /// Breaks ties of versions.
    pub rank: u32,
    /// What the document's digest is made from.
    pub document: Vec<u8>,
    /// Canonical JSON; none deletes.
    pub state: Option<String>,
}

/// A change of `order` `key` at `version`: epoch 1, rank 0, its state and document say key and version.
pub fn change(key: &str, version: u64) -> ChangeBuilder {
    let state = format!("{{\"key\":{},\"version\":{version}}}", serde_json::Value::from(key));
    ChangeBuilder {
        entity: "order",
        key: key.to_owned(),
        epoch: 1,
        version,
        rank: 0,
        document: state.clone().into_bytes(),
        state: Some(state),
    }
}

impl ChangeBuilder {
    /// Of this kind of entity.
    #[must_use]
    pub fn entity(mut self, entity: &'static str) -> Self {
        self.entity = entity;
        self
    }

    /// Under this epoch.
    #[must_use]
    pub fn epoch(mut self, epoch: u32) -> Self {
        self.epoch = epoch;
        self
    }

    /// Of this rank.
    #[must_use]
    pub fn rank(mut self, rank: u32) -> Self {
        self.rank = rank;
        self
    }

    /// Made from another document.
    #[must_use]
    pub fn document(mut self, document: &str) -> Self {
        self.document = document.as_bytes().to_vec();
        self
    }

    /// With this state, which must be canonical JSON.
    #[must_use]
    pub fn state(mut self, state: &str) -> Self {
        self.state = Some(state.to_owned());
        self
    }

    /// Deleting.
    #[must_use]
    pub fn delete(mut self) -> Self {
        self.state = None;
        self
    }

    /// The change.
    ///
    /// # Panics
    /// When the entity kind is none.
    pub fn build(self) -> Change {
        let mut version = self.version.to_be_bytes().to_vec();
        version.push(0);
        let order_key = OrderKey::encode(&OrderKeyParts {
            epoch: self.epoch,
            terminal: 0,
            version: &version,
            deleted: self.state.is_none(),
            rank: self.rank,
            digest: Digest::of(&self.document),
            context: Digest::of(b""),
        });
        let entity = EntityKind::parse(self.entity).expect("an entity kind");
        Change::of(entity, self.key, self.version.to_string(), order_key, self.state)
    }
}

/// A plan that applies these changes; type `order.updated`.
pub fn applies(changes: Vec<Change>) -> Prepared {
    Prepared { event_type: Some("order.updated".to_owned()), plan: Plan::Apply(changes) }
}

/// A plan that no projection is about; type `order.updated`.
pub fn ignored() -> Prepared {
    Prepared { event_type: Some("order.updated".to_owned()), plan: Plan::Ignore }
}

/// A plan to try it again then, because `apply.failed`.
pub fn retries(next_attempt_at: Timestamp) -> Prepared {
    let failure = Failure::of(Reason::ApplyFailed, "the database failed");
    Prepared {
        event_type: Some("order.updated".to_owned()),
        plan: Plan::Setback(Setback::Retry(failure, next_attempt_at)),
    }
}

/// A plan that the event is dead for this reason; its message is `it cannot be mapped`.
pub fn dies(reason: Reason) -> Prepared {
    Prepared::dead(Some("order.updated".to_owned()), Failure::of(reason, "it cannot be mapped"))
}

/// An item of a batch.
pub fn item(message: &Message, prepared: Prepared) -> ApplyItem {
    ApplyItem { message: Arc::new(message.clone()), prepared }
}

/// A batch under rules version 0.
pub fn batch(now: Timestamp, items: Vec<ApplyItem>) -> ApplyBatch {
    ApplyBatch { now, rules_version: 0, items }
}
