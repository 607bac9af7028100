use super::log::Event;
use crate::error::{damaged, store_error};
use crate::rows::array;
use oncefold_core::event::EventStatus;
use oncefold_core::id::{Digest, EventUuid, SourceName};
use oncefold_core::store::{ApplyItem, StoreError, variant_event_id};
use oncefold_core::time::Timestamp;
use sqlx::SqliteConnection;
use std::collections::HashMap;

/// A row of `events` as it is stored.
struct Row {
    id: Vec<u8>,
    source: String,
    event_id: String,
    event_type: Option<String>,
    status: String,
    generation: i64,
    body_digest: Vec<u8>,
    received_at_us: i64,
    deliveries: i64,
    attempts: i64,
    next_attempt_at_us: Option<i64>,
    lease_until_us: Option<i64>,
    settled_at_us: Option<i64>,
    dead_at_us: Option<i64>,
    reason: Option<String>,
    message: Option<String>,
    stored_at_us: Option<i64>,
    has_failed: i64,
}

/// Every event that the rules of claiming may ask for: by id; where it comes from outside by the name it has at its
/// source; and where that is known with other bytes, by the variant's name.
pub(super) async fn known_events(conn: &mut SqliteConnection, items: &[ApplyItem]) -> Result<Vec<Event>, StoreError> {
    let ids: Vec<String> = items.iter().map(|item| hex::encode(item.message.id.as_bytes())).collect();
    let mut known = by_ids(conn, &ids).await?;
    let arrivals: Vec<_> = items.iter().map(|item| &item.message).filter(|m| m.generation == 0).collect();
    if arrivals.is_empty() {
        return Ok(known);
    }
    known.extend(by_names(conn, arrivals.iter().map(|m| (m.source.as_str(), m.event_id.clone())).collect()).await?);
    let mut digests: HashMap<(&str, &str), Digest> =
        known.iter().map(|event| ((event.source.as_str(), event.event_id.as_str()), event.digest)).collect();
    let mut variants = Vec::new();
    for message in &arrivals {
        let name = (message.source.as_str(), message.event_id.as_str());
        if *digests.entry(name).or_insert(message.digest) != message.digest {
            variants.push((message.source.as_str(), variant_event_id(&message.event_id, &message.digest)));
        }
    }
    if !variants.is_empty() {
        let variants = by_names(conn, variants).await?;
        known.extend(variants);
    }
    Ok(known)
}

async fn by_ids(conn: &mut SqliteConnection, ids: &[String]) -> Result<Vec<Event>, StoreError> {
    let ids = array(ids);
    let rows = sqlx::query_as!(
        Row,
        r#"SELECT e.id, e.source, e.event_id, e.type AS event_type, e.status, e.generation, e.body_digest,
                  e.received_at_us, e.deliveries, e.attempts, e.next_attempt_at_us, e.lease_until_us, e.settled_at_us,
                  e.dead_at_us, e.reason, e.message, e.stored_at_us,
                  EXISTS (SELECT 1 FROM attempts a WHERE a.event = e.id) AS "has_failed!: i64"
           FROM json_each(?) j CROSS JOIN events e ON e.id = unhex(j.value)"#,
        ids
    )
    .fetch_all(conn)
    .await
    .map_err(store_error)?;
    rows.into_iter().map(event).collect()
}

async fn by_names(conn: &mut SqliteConnection, names: Vec<(&str, String)>) -> Result<Vec<Event>, StoreError> {
    let names = array(names);
    let rows = sqlx::query_as!(
        Row,
        r#"SELECT e.id, e.source, e.event_id, e.type AS event_type, e.status, e.generation, e.body_digest,
                  e.received_at_us, e.deliveries, e.attempts, e.next_attempt_at_us, e.lease_until_us, e.settled_at_us,
                  e.dead_at_us, e.reason, e.message, e.stored_at_us,
                  EXISTS (SELECT 1 FROM attempts a WHERE a.event = e.id) AS "has_failed!: i64"
           FROM jsonb_each(?) j CROSS JOIN events e ON e.source = j.value ->> 0 AND e.event_id = j.value ->> 1"#,
        names
    )
    .fetch_all(conn)
    .await
    .map_err(store_error)?;
    rows.into_iter().map(event).collect()
}

fn event(row: Row) -> Result<Event, StoreError> {
    let id: [u8; 16] = row.id.try_into().map_err(|_| damaged("an event id"))?;
    Ok(Event {
        id: EventUuid::from_bytes(id),
        source: SourceName::parse(&row.source).map_err(|_| damaged("a source name"))?,
        event_id: row.event_id,
        event_type: row.event_type,
        status: EventStatus::parse(&row.status).ok_or_else(|| damaged("an event status"))?,
        generation: u32::try_from(row.generation).map_err(|_| damaged("a generation"))?,
        digest: Digest::try_from(&row.body_digest[..]).map_err(|_| damaged("a digest"))?,
        received_at: Timestamp::from_micros(row.received_at_us),
        deliveries: u64::try_from(row.deliveries).map_err(|_| damaged("a count"))?,
        attempts: u32::try_from(row.attempts).map_err(|_| damaged("a count"))?,
        next_attempt_at: row.next_attempt_at_us.map(Timestamp::from_micros),
        lease_until: row.lease_until_us.map(Timestamp::from_micros),
        settled_at: row.settled_at_us.map(Timestamp::from_micros),
        dead_at: row.dead_at_us.map(Timestamp::from_micros),
        failure: row.reason.zip(row.message),
        stored_at: row.stored_at_us.map(Timestamp::from_micros),
        has_failed: row.has_failed != 0,
    })
}
