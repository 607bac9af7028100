use super::log::Event;
use crate::error::{damaged, store_error};
use crate::rows::Rows;
use oncefold_core::event::EventStatus;
use oncefold_core::id::{Digest, EventUuid, SourceName};
use oncefold_core::message::Message;
use oncefold_core::store::{ApplyItem, StoreError, variant_event_id};
use oncefold_core::time::Timestamp;
use sqlx::SqliteConnection;
use std::borrow::Cow;
use std::collections::HashMap;

/// Of nothing: ids are UUIDv7.
const NO_ID: [u8; 16] = [0; 16];

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

/// What an event may be known by: its id, its source and what it is called there.
type Known<'a> = (Option<EventUuid>, Option<(&'a str, Cow<'a, str>)>);

/// Every event that the rules of claiming may ask for: by id; where it comes from outside by the name it has at its
/// source; and where that is known with other bytes, by the variant's name. One may be there twice.
pub(super) async fn known_events(conn: &mut SqliteConnection, items: &[ApplyItem]) -> Result<Vec<Event>, StoreError> {
    let messages = || items.iter().map(|item| &*item.message);
    let comes_from_outside = |message: &&Message| message.generation == 0;
    let wanted = messages().map(|message| {
        let name = || (message.source.as_str(), Cow::from(&message.event_id));
        (Some(message.id), comes_from_outside(&message).then(name))
    });
    let mut known = look_up(conn, wanted.collect()).await?;
    let mut digests: HashMap<(&str, &str), Digest> =
        known.iter().map(|event| ((event.source.as_str(), event.event_id.as_str()), event.digest)).collect();
    let mut variants: Vec<Known<'_>> = Vec::new();
    for message in messages().filter(comes_from_outside) {
        let name = (message.source.as_str(), message.event_id.as_str());
        if *digests.entry(name).or_insert(message.digest) != message.digest {
            let variant = variant_event_id(&message.event_id, &message.digest);
            variants.push((None, Some((message.source.as_str(), variant.into()))));
        }
    }
    if !variants.is_empty() {
        let variants = look_up(conn, variants).await?;
        known.extend(variants);
    }
    Ok(known)
}

async fn look_up(conn: &mut SqliteConnection, wanted: Vec<Known<'_>>) -> Result<Vec<Event>, StoreError> {
    let mut rows = Rows::with_capacity(wanted.len(), wanted.len() * 16);
    for (id, name) in &wanted {
        rows.put(id.as_ref().map_or(&NO_ID, |id| id.as_bytes()));
        rows.push(name);
    }
    let (json, blob) = rows.finish();
    let rows = sqlx::query_as!(
        Row,
        r#"SELECT e.id AS "id!", e.source AS "source!", e.event_id AS "event_id!", e.type AS event_type,
                  e.status AS "status!", e.generation AS "generation!", e.body_digest AS "body_digest!",
                  e.received_at_us AS "received_at_us!", e.deliveries AS "deliveries!", e.attempts AS "attempts!",
                  e.next_attempt_at_us, e.lease_until_us, e.settled_at_us, e.dead_at_us, e.reason, e.message,
                  e.stored_at_us,
                  EXISTS (SELECT 1 FROM attempts a WHERE a.event = e.id) AS "has_failed!: i64"
           FROM jsonb_each(?1) j CROSS JOIN events e ON e.id = substr(?2, j.key * 16 + 1, 16)
           UNION ALL
           SELECT e.id, e.source, e.event_id, e.type, e.status, e.generation, e.body_digest, e.received_at_us,
                  e.deliveries, e.attempts, e.next_attempt_at_us, e.lease_until_us, e.settled_at_us, e.dead_at_us,
                  e.reason, e.message, e.stored_at_us, EXISTS (SELECT 1 FROM attempts a WHERE a.event = e.id)
           FROM jsonb_each(?1) j CROSS JOIN events e ON e.source = j.value ->> 0 AND e.event_id = j.value ->> 1"#,
        json,
        blob
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
