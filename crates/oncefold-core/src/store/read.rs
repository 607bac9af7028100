use super::StoreError;
use crate::change::Verdict;
use crate::event::EventStatus;
use crate::id::{EntityKind, EventUuid, SourceName};
use crate::message::Facts;
use crate::time::Timestamp;
use async_trait::async_trait;
use bytes::Bytes;

/// Which events. Absent fields do not filter.
#[derive(Clone, Debug, Default)]
pub struct EventFilter {
    /// Of this source.
    pub source: Option<String>,
    /// Of exactly this type.
    pub event_type: Option<String>,
    /// In this status.
    pub status: Option<EventStatus>,
    /// Dead or retrying for this reason.
    pub reason: Option<String>,
    /// That had a change of this kind of entity.
    pub entity: Option<String>,
    /// That had a change of this key.
    pub key: Option<String>,
    /// Known by this id at their source.
    pub event_id: Option<String>,
    /// Received at or after.
    pub since: Option<Timestamp>,
    /// Received before.
    pub until: Option<Timestamp>,
    /// Older than this one: the cursor.
    pub before: Option<EventUuid>,
    /// At most so many.
    pub limit: u32,
}

/// A recorded event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventRecord {
    /// Its id.
    pub id: EventUuid,
    /// Its source.
    pub source: SourceName,
    /// What it is known by there.
    pub event_id: String,
    /// Its type, where known.
    pub event_type: Option<String>,
    /// Where it stands.
    pub status: EventStatus,
    /// When its first delivery was received.
    pub received_at: Timestamp,
    /// When it was applied, ignored or discarded.
    pub settled_at: Option<Timestamp>,
    /// When it died, while it is dead.
    pub dead_at: Option<Timestamp>,
    /// Arrivals from outside.
    pub deliveries: u64,
    /// Verdicts of workers.
    pub attempts: u32,
    /// When it is tried again.
    pub next_attempt_at: Option<Timestamp>,
    /// The last failure's reason and message, while it is dead or retrying.
    pub error: Option<(String, String)>,
    /// Request headers and the like; empty where retention dropped them.
    pub facts: Facts,
    /// Its changes by the last verdict that applied it, where retention has kept them.
    pub changes: Vec<ChangeRecord>,
}

/// A change of a recorded event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangeRecord {
    /// The kind of entity.
    pub entity: EntityKind,
    /// Which one.
    pub key: String,
    /// Its version.
    pub version: String,
    /// What became of it.
    pub verdict: Verdict,
}

/// One verdict of a worker on an event that did not succeed at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttemptRecord {
    /// Which attempt, from 1.
    pub attempt: u32,
    /// When.
    pub at: Timestamp,
    /// Where the event stood after it.
    pub status: EventStatus,
    /// Why it failed, if it did.
    pub error: Option<(String, String)>,
}

/// An event's exact bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredBody {
    /// The bytes.
    pub body: Bytes,
    /// The `Content-Type` they came with.
    pub content_type: Option<String>,
}

/// Dead letters that died alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadLetterGroup {
    /// Their source.
    pub source: SourceName,
    /// Their type.
    pub event_type: Option<String>,
    /// Their reason.
    pub reason: String,
    /// How many.
    pub count: u64,
    /// When the first of them was received.
    pub oldest: Timestamp,
    /// When the last of them was received.
    pub newest: Timestamp,
    /// One of them, the newest.
    pub example: EventUuid,
}

/// Which entities, by (entity, key).
#[derive(Clone, Debug, Default)]
pub struct EntityFilter {
    /// Of this kind.
    pub entity: Option<String>,
    /// Whose key starts with this, byte for byte.
    pub key_prefix: Option<String>,
    /// Only deleted, only living; both where absent.
    pub deleted: Option<bool>,
    /// After this (entity, key): the cursor.
    pub after: Option<(String, String)>,
    /// At most so many.
    pub limit: u32,
}

/// An entity's folded state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntityRecord {
    /// Its kind.
    pub entity: EntityKind,
    /// Which one.
    pub key: String,
    /// Canonical JSON; none where deleted.
    pub state: Option<String>,
    /// The version that won.
    pub version: String,
    /// Whether it is a tombstone.
    pub deleted: bool,
    /// The event that won.
    pub event: EventUuid,
    /// When it was last written.
    pub updated_at: Timestamp,
}

/// One change in an entity's history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistoryRecord {
    /// The event.
    pub event: EventUuid,
    /// Its source.
    pub source: SourceName,
    /// Its type.
    pub event_type: Option<String>,
    /// The change's version.
    pub version: String,
    /// What became of it.
    pub verdict: Verdict,
    /// When.
    pub at: Timestamp,
}

/// A source as the store knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceRecord {
    /// Its name.
    pub name: SourceName,
    /// When it was first registered.
    pub first_seen_at: Timestamp,
}

/// What people look at.
#[async_trait]
pub trait ReadStore: Send + Sync {
    /// A page of events, newest first, with facts and changes.
    async fn events(&self, filter: &EventFilter) -> Result<Vec<EventRecord>, StoreError>;

    /// One event.
    async fn event(&self, id: EventUuid) -> Result<Option<EventRecord>, StoreError>;

    /// Its attempts, oldest first; none for a success at the first try.
    async fn attempts(&self, id: EventUuid) -> Result<Vec<AttemptRecord>, StoreError>;

    /// Its exact bytes; none where the event is unknown or retention dropped them.
    async fn body(&self, id: EventUuid) -> Result<Option<StoredBody>, StoreError>;

    /// Dead letters by source, type and reason, most first.
    async fn dead_letter_groups(&self) -> Result<Vec<DeadLetterGroup>, StoreError>;

    /// A page of entities, by (entity, key) in byte order.
    async fn entities(&self, filter: &EntityFilter) -> Result<Vec<EntityRecord>, StoreError>;

    /// One entity.
    async fn entity(&self, entity: &str, key: &str) -> Result<Option<EntityRecord>, StoreError>;

    /// Its changes, newest event first, before the event of the cursor.
    async fn history(
        &self,
        entity: &str,
        key: &str,
        before: Option<EventUuid>,
        limit: u32,
    ) -> Result<Vec<HistoryRecord>, StoreError>;

    /// Known sources, by name.
    async fn sources(&self) -> Result<Vec<SourceRecord>, StoreError>;
}
