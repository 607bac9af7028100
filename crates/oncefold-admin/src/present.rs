//! How events, dead letters and entities are shown: one JSON for the API and for the CLI's `--json`
//! (contract.md, "Admin API").

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use oncefold_core::store::{
    AttemptRecord, DeadLetterGroup, EntityRecord, EventRecord, HistoryRecord, RejectedRecord, SourceRecord,
};
use oncefold_core::{EventStatus, EventUuid, SourceName};
use serde_json::{Map, Value, json};

/// An event.
pub fn event(record: &EventRecord) -> Value {
    let error = record.error.as_ref().map(|(reason, message)| json!({"reason": reason, "message": message}));
    let changes: Vec<_> = record
        .changes
        .iter()
        .map(|c| json!({"entity": c.entity, "key": c.key, "version": c.version, "verdict": c.verdict.as_str()}))
        .collect();
    json!({
        "id": record.id,
        "source": record.source,
        "event_id": record.event_id,
        "type": record.event_type,
        "status": record.status.as_str(),
        "received_at": record.received_at,
        "settled_at": record.settled_at,
        "deliveries": record.deliveries,
        "attempts": record.attempts,
        "next_attempt_at": record.next_attempt_at,
        "error": error,
        "headers": headers(&record.facts.headers),
        "changes": changes,
        "trace_id": (!record.facts.trace_id.is_empty()).then_some(&record.facts.trace_id),
        "verified_by": (!record.facts.scheme.is_empty())
            .then(|| json!({"scheme": record.facts.scheme, "secret_index": record.facts.secret_index})),
    })
}

/// An event with the history of its attempts.
pub fn event_with_attempts(record: &EventRecord, attempts: &[AttemptRecord]) -> Value {
    let mut value = if record.status == EventStatus::Dead { dead_letter(record) } else { event(record) };
    value["attempt_history"] = attempts.iter().map(attempt).collect();
    value
}

/// A dead letter: an event with the reason and the time of its death beside it.
pub fn dead_letter(record: &EventRecord) -> Value {
    let mut value = event(record);
    value["reason"] = json!(record.error.as_ref().map(|(reason, _)| reason));
    value["dead_at"] = json!(record.dead_at);
    value
}

fn attempt(record: &AttemptRecord) -> Value {
    let error = record.error.as_ref().map(|(reason, message)| json!({"reason": reason, "message": message}));
    json!({"attempt": record.attempt, "at": record.at, "status": record.status.as_str(), "error": error})
}

/// Headers as an object; a name that came more than once has a list.
fn headers(pairs: &[(String, String)]) -> Value {
    let mut shown: Map<String, Value> = Map::new();
    for (name, value) in pairs {
        match shown.get_mut(name) {
            None => drop(shown.insert(name.clone(), json!(value))),
            Some(Value::Array(values)) => values.push(json!(value)),
            Some(first) => *first = json!([first.take(), value]),
        }
    }
    Value::Object(shown)
}

/// Dead letters that died alike.
pub fn dead_letter_group(group: &DeadLetterGroup) -> Value {
    json!({
        "source": group.source,
        "type": group.event_type,
        "reason": group.reason,
        "count": group.count,
        "oldest": group.oldest,
        "newest": group.newest,
        "example": group.example,
    })
}

/// An entity. Its state's numbers stay as exact as they are stored.
pub fn entity(record: &EntityRecord) -> Value {
    let state = record.state.as_deref().and_then(|text| oncefold_core::json::parse_stored(text).ok());
    json!({
        "entity": record.entity,
        "key": record.key,
        "state": state,
        "version": record.version,
        "deleted": record.deleted,
        "event": record.event,
        "updated_at": record.updated_at,
    })
}

/// One change of an entity's history.
pub fn history(record: &HistoryRecord) -> Value {
    json!({
        "event": record.event,
        "source": record.source,
        "type": record.event_type,
        "version": record.version,
        "verdict": record.verdict.as_str(),
        "at": record.at,
    })
}

/// A source the store knows.
pub fn source(record: &SourceRecord, configured: bool) -> Value {
    json!({"name": record.name, "first_seen_at": record.first_seen_at, "configured": configured})
}

/// A source of the config that no worker has registered yet.
pub fn unseen_source(name: &SourceName) -> Value {
    json!({"name": name, "first_seen_at": null, "configured": true})
}

/// A page: its items, and the cursor of the next one if it may have items.
pub fn page(items: Vec<Value>, next_cursor: Option<String>) -> Value {
    json!({"items": items, "next_cursor": next_cursor})
}

/// A rejected delivery, with what explains it.
pub fn rejected(record: &RejectedRecord, diagnosis: &[String]) -> Value {
    let delivery = &record.delivery;
    let request = &delivery.request;
    json!({
        "source": delivery.source,
        "at": delivery.at,
        "reason": delivery.reason,
        "detail": delivery.detail,
        "diagnosis": diagnosis,
        "method": request.method,
        "query": request.query,
        "headers": headers(&request.headers),
        "body_bytes": request.body_bytes,
        "trace_id": request.trace_id,
    })
}

/// The cursor after a rejected delivery.
pub fn rejected_cursor(sequence: i64) -> String {
    format!("{sequence:016x}")
}

/// The rejected delivery a cursor stands after.
pub fn parse_rejected_cursor(cursor: &str) -> Option<i64> {
    let digits = cursor.len() == 16 && cursor.bytes().all(|b| b.is_ascii_hexdigit());
    digits.then(|| i64::from_str_radix(cursor, 16).ok()).flatten()
}

/// The cursor after an event.
pub fn event_cursor(id: EventUuid) -> String {
    hex::encode(id.as_bytes())
}

/// The event a cursor stands after.
pub fn parse_event_cursor(cursor: &str) -> Option<EventUuid> {
    let mut bytes = [0; 16];
    hex::decode_to_slice(cursor, &mut bytes).ok().map(|()| EventUuid::from_bytes(bytes))
}

/// The cursor after an entity.
pub fn entity_cursor(entity: &str, key: &str) -> String {
    URL_SAFE_NO_PAD.encode(json!([entity, key]).to_string())
}

/// The (entity, key) a cursor stands after. None holds a NUL, which PostgreSQL's text cannot.
pub fn parse_entity_cursor(cursor: &str) -> Option<(String, String)> {
    let (entity, key): (String, String) = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(cursor).ok()?).ok()?;
    (!entity.contains('\0') && !key.contains('\0')).then_some((entity, key))
}
