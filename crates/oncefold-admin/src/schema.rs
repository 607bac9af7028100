//! The shapes of the API as its OpenAPI document describes them. The values themselves are made by
//! [`crate::present`]; a test holds the two together.

use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// A source the store or the config knows.
#[derive(Serialize, ToSchema)]
pub struct Source {
    /// Its name.
    pub name: String,
    /// When a worker first registered it.
    #[schema(format = DateTime)]
    pub first_seen_at: Option<String>,
    /// Whether the config of this process has it.
    pub configured: bool,
    /// Messages waiting on its queue, of which one may carry several events; null while the queue is away.
    pub queue_depth: Option<u64>,
}

/// Every source.
#[derive(Serialize, ToSchema)]
pub struct SourcePage {
    /// By name.
    pub items: Vec<Source>,
    /// Always null.
    pub next_cursor: Option<String>,
}

/// Why it failed.
#[derive(Serialize, ToSchema)]
pub struct Failure {
    /// One of the closed, dotted reasons.
    #[schema(example = "mapping.missing_id")]
    pub reason: String,
    /// What happened and where.
    pub message: String,
}

/// What an event meant for one entity.
#[derive(Serialize, ToSchema)]
pub struct EventChange {
    /// The kind of entity.
    pub entity: String,
    /// Which one.
    pub key: String,
    /// Its version.
    pub version: String,
    /// `applied`, `noop`, `stale`, `tie` or `duplicate`.
    pub verdict: String,
}

/// A try to apply an event.
#[derive(Serialize, ToSchema)]
pub struct Attempt {
    /// Which one, from 1.
    pub attempt: u32,
    /// When.
    #[schema(format = DateTime)]
    pub at: String,
    /// Where the event stood after it.
    pub status: String,
    /// Why it failed, if it did.
    pub error: Option<Failure>,
}

/// What verified a delivery.
#[derive(Serialize, ToSchema)]
pub struct VerifiedBy {
    /// The signature scheme.
    pub scheme: String,
    /// Which of the source's secrets matched, from 0.
    pub secret_index: Option<usize>,
}

/// A recorded event.
#[derive(Serialize, ToSchema)]
pub struct Event {
    /// A UUIDv7.
    pub id: String,
    /// Its source.
    pub source: String,
    /// What it is known by there.
    pub event_id: String,
    /// Null where it is unknown.
    pub r#type: Option<String>,
    /// `queued`, `retrying`, `dead`, `applied`, `ignored` or `discarded`.
    pub status: String,
    /// When its first delivery was received.
    #[schema(format = DateTime)]
    pub received_at: String,
    /// When it was applied, ignored or discarded.
    #[schema(format = DateTime)]
    pub settled_at: Option<String>,
    /// Arrivals from outside.
    pub deliveries: u64,
    /// Verdicts of workers.
    pub attempts: u32,
    /// When it is tried again.
    #[schema(format = DateTime)]
    pub next_attempt_at: Option<String>,
    /// The last failure, while it is dead or retrying.
    pub error: Option<Failure>,
    /// Request headers, names in lower case; a name that came more than once has a list.
    pub headers: BTreeMap<String, Value>,
    /// Its changes by the last verdict that applied it.
    pub changes: Vec<EventChange>,
    /// What follows the delivery through every log line.
    pub trace_id: Option<String>,
    /// What verified it.
    pub verified_by: Option<VerifiedBy>,
    /// Its attempts, oldest first, where one event is shown; none for a success at the first try.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempt_history: Option<Vec<Attempt>>,
}

/// A page of events.
#[derive(Serialize, ToSchema)]
pub struct EventPage {
    /// Newest first.
    pub items: Vec<Event>,
    /// Null on the last page.
    pub next_cursor: Option<String>,
}

/// An event that will not be retried by itself.
#[derive(Serialize, ToSchema)]
pub struct DeadLetter {
    /// The event.
    #[serde(flatten)]
    pub event: Event,
    /// Why it died.
    pub reason: Option<String>,
    /// When it died.
    #[schema(format = DateTime)]
    pub dead_at: Option<String>,
}

/// A page of dead letters.
#[derive(Serialize, ToSchema)]
pub struct DeadLetterPage {
    /// Newest event first.
    pub items: Vec<DeadLetter>,
    /// Null on the last page.
    pub next_cursor: Option<String>,
}

/// Dead letters that died alike.
#[derive(Serialize, ToSchema)]
pub struct DeadLetterGroup {
    /// Their source.
    pub source: String,
    /// Their type; null where it is unknown.
    pub r#type: Option<String>,
    /// Their reason.
    pub reason: String,
    /// How many.
    pub count: u64,
    /// When the first of them was received.
    #[schema(format = DateTime)]
    pub oldest: String,
    /// When the last of them was received.
    #[schema(format = DateTime)]
    pub newest: String,
    /// The id of one of them.
    pub example: String,
}

/// Every group of dead letters.
#[derive(Serialize, ToSchema)]
pub struct DeadLetterGroupPage {
    /// Most first.
    pub items: Vec<DeadLetterGroup>,
    /// Always null.
    pub next_cursor: Option<String>,
}

/// Gives a dead letter up.
#[derive(Serialize, ToSchema)]
pub struct Discard {
    /// Why, in your words, 1 to 500 bytes.
    #[schema(min_length = 1, max_length = 500)]
    pub reason: String,
}

/// An entity's folded state.
#[derive(Serialize, ToSchema)]
pub struct Entity {
    /// Its kind.
    pub entity: String,
    /// Which one.
    pub key: String,
    /// Null where it is deleted.
    pub state: Option<Value>,
    /// The version that won.
    pub version: String,
    /// Whether it is deleted.
    pub deleted: bool,
    /// The id of the event that won.
    pub event: String,
    /// When it was last written.
    #[schema(format = DateTime)]
    pub updated_at: String,
}

/// A page of entities.
#[derive(Serialize, ToSchema)]
pub struct EntityPage {
    /// By (entity, key).
    pub items: Vec<Entity>,
    /// Null on the last page.
    pub next_cursor: Option<String>,
}

/// One change of an entity.
#[derive(Serialize, ToSchema)]
pub struct HistoryItem {
    /// The event's id.
    pub event: String,
    /// The event's source.
    pub source: String,
    /// The event's type.
    pub r#type: Option<String>,
    /// The change's version.
    pub version: String,
    /// `applied`, `noop`, `stale`, `tie` or `duplicate`.
    pub verdict: String,
    /// When.
    #[schema(format = DateTime)]
    pub at: String,
}

/// A page of an entity's changes.
#[derive(Serialize, ToSchema)]
pub struct HistoryPage {
    /// Newest event first; the changes of one event are never parted, so a page may hold more than `limit`.
    pub items: Vec<HistoryItem>,
    /// Null on the last page.
    pub next_cursor: Option<String>,
}

/// A delivery that did not verify. Nobody verified what stands in it.
#[derive(Serialize, ToSchema)]
pub struct Rejected {
    /// The source it was sent to.
    pub source: String,
    /// When it came.
    #[schema(format = DateTime)]
    pub at: String,
    /// The class of its rejection.
    #[schema(example = "no_matching_signature")]
    pub reason: String,
    /// What was wrong.
    pub detail: String,
    /// What trying other readings of it found out, a line each.
    pub diagnosis: Vec<String>,
    /// The HTTP method.
    pub method: String,
    /// The query string, secrets left out.
    pub query: String,
    /// Its headers, secrets left out; a name that came more than once has a list.
    pub headers: BTreeMap<String, Value>,
    /// How long its body was.
    pub body_bytes: usize,
    /// Its name in the logs.
    pub trace_id: String,
}

/// A page of rejected deliveries.
#[derive(Serialize, ToSchema)]
pub struct RejectedPage {
    /// Newest first.
    pub items: Vec<Rejected>,
    /// Null on the last page.
    pub next_cursor: Option<String>,
}

/// An answer that is not a success (RFC 9457). Some have members of their own: `parameter`, `event_status`.
#[derive(Serialize, ToSchema)]
pub struct Problem {
    /// `urn:oncefold:problem:…`: what programs tell problems apart by.
    pub r#type: String,
    /// The status in words.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// What happened and what to do.
    pub detail: String,
}
