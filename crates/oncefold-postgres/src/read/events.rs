//! Events with their facts and changes.

use super::planned_afresh;
use crate::convert::{count, entity_kind, moment, small, source, status, uuids, verdict};
use crate::error::store_error;
use crate::session::Sessions;
use oncefold_core::event::EventStatus;
use oncefold_core::id::EventUuid;
use oncefold_core::message::{Facts, FactsJson};
use oncefold_core::store::{ChangeRecord, EventFilter, EventRecord, StoreError};
use oncefold_core::time::Timestamp;
use sqlx::PgConnection;
use std::collections::HashMap;
use std::time::Duration;
use uuid::Uuid;

struct Found {
    id: Uuid,
    source: String,
    event_id: String,
    event_type: Option<String>,
    status: String,
    received_at_us: i64,
    settled_at_us: Option<i64>,
    dead_at_us: Option<i64>,
    deliveries: i64,
    attempts: i32,
    next_attempt_at_us: Option<i64>,
    reason: Option<String>,
    message: Option<String>,
    facts: Option<String>,
}

pub(super) async fn page(sessions: &Sessions, filter: &EventFilter) -> Result<Vec<EventRecord>, StoreError> {
    let mut session = sessions.take().await?;
    let mut transaction = planned_afresh(&mut session).await.map_err(|e| store_error(&e))?;
    let found = found(&mut transaction, filter).await.map_err(|e| store_error(&e))?;
    let records = with_changes(&mut transaction, found).await?;
    transaction.commit().await.map_err(|e| store_error(&e))?;
    Ok(records)
}

/// An id begins with the moment of receipt, so bounds on that moment bound the walk along the primary key too.
async fn found(connection: &mut PgConnection, filter: &EventFilter) -> sqlx::Result<Vec<Found>> {
    let just_past = |until: Timestamp| EventUuid::lowest_at(until.plus(Duration::from_millis(1)));
    let below = [filter.before, filter.until.map(just_past)].into_iter().flatten().min();
    sqlx::query_as!(
        Found,
        r#"
        SELECT events.id, source, event_id, type AS event_type, status, received_at_us, settled_at_us, dead_at_us,
               deliveries, attempts, next_attempt_at_us, reason, message,
               COALESCE(held.facts, kept.facts) AS facts
        FROM events
        LEFT JOIN held_bodies held ON held.id = events.id
        LEFT JOIN bodies kept ON kept.id = events.id AND kept.stored_at_us = events.stored_at_us
        WHERE ($1::text IS NULL OR source = $1)
          AND ($2::text IS NULL OR type = $2)
          AND ($3::text IS NULL OR status = $3)
          AND ($4::text IS NULL OR (reason = $4 AND status IN ('dead', 'retrying')))
          AND ($5::text IS NULL OR event_id = $5)
          AND ($6::bigint IS NULL OR received_at_us >= $6)
          AND ($7::bigint IS NULL OR received_at_us < $7)
          AND ($8::uuid IS NULL OR events.id >= $8)
          AND ($9::uuid IS NULL OR events.id < $9)
          AND (($10::text IS NULL AND $11::text IS NULL) OR events.id IN (
                  SELECT event FROM changes
                  WHERE ($10::text IS NULL OR entity = $10) AND ($11::text IS NULL OR key = $11)
              ))
        ORDER BY events.id DESC
        LIMIT $12
        "#,
        filter.source,
        filter.event_type,
        filter.status.map(EventStatus::as_str),
        filter.reason,
        filter.event_id,
        filter.since.map(Timestamp::as_micros),
        filter.until.map(Timestamp::as_micros),
        filter.since.map(|since| EventUuid::lowest_at(since).as_uuid()),
        below.map(|id| id.as_uuid()),
        filter.entity,
        filter.key,
        i64::from(filter.limit),
    )
    .fetch_all(connection)
    .await
}

pub(super) async fn one(sessions: &Sessions, id: EventUuid) -> Result<Option<EventRecord>, StoreError> {
    let mut connection = sessions.take().await?;
    let found = sqlx::query_as!(
        Found,
        r#"
        SELECT events.id, source, event_id, type AS event_type, status, received_at_us, settled_at_us, dead_at_us,
               deliveries, attempts, next_attempt_at_us, reason, message,
               COALESCE(held.facts, kept.facts) AS facts
        FROM events
        LEFT JOIN held_bodies held ON held.id = events.id
        LEFT JOIN bodies kept ON kept.id = events.id AND kept.stored_at_us = events.stored_at_us
        WHERE events.id = $1
        "#,
        id.as_uuid(),
    )
    .fetch_all(&mut *connection)
    .await
    .map_err(|e| store_error(&e))?;
    Ok(with_changes(&mut connection, found).await?.pop())
}

async fn with_changes(connection: &mut PgConnection, found: Vec<Found>) -> Result<Vec<EventRecord>, StoreError> {
    let ids: Vec<EventUuid> = found.iter().map(|row| row.id.into()).collect();
    let mut changes = last_changes(connection, &ids).await?;
    let records = found.into_iter().map(|row| {
        let status = status(&row.status)?;
        let failed = matches!(status, EventStatus::Dead | EventStatus::Retrying);
        Ok(EventRecord {
            id: row.id.into(),
            source: source(&row.source)?,
            event_id: row.event_id,
            event_type: row.event_type,
            status,
            received_at: Timestamp::from_micros(row.received_at_us),
            settled_at: moment(row.settled_at_us),
            dead_at: moment(row.dead_at_us),
            deliveries: count(row.deliveries),
            attempts: small(row.attempts),
            next_attempt_at: moment(row.next_attempt_at_us),
            error: row.reason.filter(|_| failed).map(|reason| (reason, row.message.unwrap_or_default())),
            facts: row.facts.map_or_else(Facts::default, |facts| FactsJson::from_text(facts).decode()),
            changes: changes.remove(&row.id).unwrap_or_default(),
        })
    });
    records.collect()
}

/// The changes of each event's latest generation that has any.
async fn last_changes(
    connection: &mut PgConnection,
    ids: &[EventUuid],
) -> Result<HashMap<Uuid, Vec<ChangeRecord>>, StoreError> {
    let rows = sqlx::query!(
        "SELECT event, generation, entity, key, version, verdict FROM changes WHERE event = ANY($1)
         ORDER BY event, generation DESC, ordinal",
        &uuids(ids),
    )
    .fetch_all(connection)
    .await
    .map_err(|e| store_error(&e))?;
    let mut changes: HashMap<Uuid, (i32, Vec<ChangeRecord>)> = HashMap::new();
    for row in rows {
        let (generation, list) = changes.entry(row.event).or_insert((row.generation, vec![]));
        if *generation == row.generation {
            list.push(ChangeRecord {
                entity: entity_kind(&row.entity)?,
                key: row.key,
                version: row.version,
                verdict: verdict(&row.verdict)?,
            });
        }
    }
    Ok(changes.into_iter().map(|(event, (_, list))| (event, list)).collect())
}
