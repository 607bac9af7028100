use super::event_uuid;
use crate::error::{damaged, store_error};
use crate::rows::array;
use oncefold_core::change::Verdict;
use oncefold_core::event::EventStatus;
use oncefold_core::id::{EntityKind, SourceName};
use oncefold_core::message::{Facts, FactsJson};
use oncefold_core::store::{ChangeRecord, EventRecord, StoreError};
use oncefold_core::time::Timestamp;
use sqlx::SqliteConnection;
use std::collections::HashMap;

struct Row {
    id: Vec<u8>,
    source: String,
    event_id: String,
    event_type: Option<String>,
    status: String,
    received_at_us: i64,
    settled_at_us: Option<i64>,
    dead_at_us: Option<i64>,
    deliveries: i64,
    attempts: i64,
    next_attempt_at_us: Option<i64>,
    reason: Option<String>,
    message: Option<String>,
    facts: Option<String>,
}

/// These events, newest first.
pub(super) async fn records(conn: &mut SqliteConnection, ids: &[Vec<u8>]) -> Result<Vec<EventRecord>, StoreError> {
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let ids = array(ids.iter().map(hex::encode));
    let rows = sqlx::query_as!(
        Row,
        r#"SELECT e.id, e.source, e.event_id, e.type AS event_type, e.status, e.received_at_us, e.settled_at_us,
                  e.dead_at_us, e.deliveries, e.attempts, e.next_attempt_at_us, e.reason, e.message,
                  coalesce(h.facts, b.facts) AS "facts: String"
           FROM json_each(?) j CROSS JOIN events e ON e.id = unhex(j.value)
           LEFT JOIN held_bodies h ON h.id = e.id
           LEFT JOIN bodies b ON b.id = e.id AND b.stored_at_us = e.stored_at_us
           ORDER BY e.id DESC"#,
        ids
    )
    .fetch_all(&mut *conn)
    .await
    .map_err(store_error)?;
    let mut changes = changes(conn, &ids).await?;
    rows.into_iter()
        .map(|row| {
            let changes = changes.remove(&row.id).unwrap_or_default();
            record(row, changes)
        })
        .collect()
}

/// Changes of these events by the last verdict that applied them.
async fn changes(conn: &mut SqliteConnection, ids: &str) -> Result<HashMap<Vec<u8>, Vec<ChangeRecord>>, StoreError> {
    let rows = sqlx::query!(
        r#"SELECT c.event, c.entity, c.key, c.version, c.verdict
           FROM json_each(?) j CROSS JOIN changes c ON c.event = unhex(j.value)
           WHERE c.generation = (SELECT max(last.generation) FROM changes last WHERE last.event = c.event)
           ORDER BY c.event, c.ordinal"#,
        ids
    )
    .fetch_all(conn)
    .await
    .map_err(store_error)?;
    let mut changes: HashMap<Vec<u8>, Vec<ChangeRecord>> = HashMap::new();
    for row in rows {
        changes.entry(row.event).or_default().push(ChangeRecord {
            entity: EntityKind::parse(&row.entity).map_err(|_| damaged("an entity kind"))?,
            key: row.key,
            version: row.version,
            verdict: Verdict::parse(&row.verdict).ok_or_else(|| damaged("a verdict"))?,
        });
    }
    Ok(changes)
}

fn record(row: Row, changes: Vec<ChangeRecord>) -> Result<EventRecord, StoreError> {
    let status = EventStatus::parse(&row.status).ok_or_else(|| damaged("an event status"))?;
    let failed = matches!(status, EventStatus::Dead | EventStatus::Retrying);
    Ok(EventRecord {
        id: event_uuid(row.id)?,
        source: SourceName::parse(&row.source).map_err(|_| damaged("a source name"))?,
        event_id: row.event_id,
        event_type: row.event_type,
        status,
        received_at: Timestamp::from_micros(row.received_at_us),
        settled_at: row.settled_at_us.map(Timestamp::from_micros),
        dead_at: row.dead_at_us.map(Timestamp::from_micros),
        deliveries: u64::try_from(row.deliveries).map_err(|_| damaged("a count"))?,
        attempts: u32::try_from(row.attempts).map_err(|_| damaged("a count"))?,
        next_attempt_at: row.next_attempt_at_us.map(Timestamp::from_micros),
        error: row.reason.zip(row.message).filter(|_| failed),
        facts: row.facts.map_or_else(Facts::default, |facts| FactsJson::from_text(facts).decode()),
        changes,
    })
}
