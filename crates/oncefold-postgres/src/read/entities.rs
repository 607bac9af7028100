//! Folded states, and how they came about.

use super::planned_afresh;
use crate::convert::{entity_kind, source, verdict};
use crate::error::store_error;
use crate::session::Sessions;
use oncefold_core::id::EventUuid;
use oncefold_core::store::{EntityFilter, EntityRecord, HistoryRecord, StoreError};
use oncefold_core::time::Timestamp;
use serde::Deserialize as _;
use uuid::Uuid;

struct Found {
    entity: String,
    key: String,
    state: Option<String>,
    version: String,
    deleted: bool,
    event: Uuid,
    updated_at_us: i64,
}

pub(super) async fn page(sessions: &Sessions, filter: &EntityFilter) -> Result<Vec<EntityRecord>, StoreError> {
    let mut session = sessions.take().await?;
    let mut transaction = planned_afresh(&mut session).await.map_err(|e| store_error(&e))?;
    let (after_entity, after_key) = filter.after.clone().unzip();
    let found = sqlx::query_as!(
        Found,
        r#"
        SELECT entity, key, state::text AS state, version, deleted, event, updated_at_us
        FROM entities
        WHERE ($1::text IS NULL OR entity = $1)
          AND ($2::text IS NULL OR (key >= $2 AND starts_with(key, $2)))
          AND ($3::boolean IS NULL OR deleted = $3)
          AND ($4::text IS NULL OR (entity, key) > ($4, $5))
        ORDER BY entity, key
        LIMIT $6
        "#,
        filter.entity,
        filter.key_prefix,
        filter.deleted,
        after_entity,
        after_key,
        i64::from(filter.limit),
    )
    .fetch_all(&mut *transaction)
    .await
    .map_err(|e| store_error(&e))?;
    transaction.commit().await.map_err(|e| store_error(&e))?;
    found.into_iter().map(record).collect()
}

pub(super) async fn one(sessions: &Sessions, entity: &str, key: &str) -> Result<Option<EntityRecord>, StoreError> {
    let found = sqlx::query_as!(
        Found,
        "SELECT entity, key, state::text AS state, version, deleted, event, updated_at_us
         FROM entities WHERE entity = $1 AND key = $2",
        entity,
        key,
    )
    .fetch_optional(&mut *sessions.take().await?)
    .await
    .map_err(|e| store_error(&e))?;
    found.map(record).transpose()
}

/// A page of changes. It never ends inside an event: the cursor is an event, so the last one's changes come all.
pub(super) async fn history(
    sessions: &Sessions,
    (entity, key): (&str, &str),
    before: Option<EventUuid>,
    limit: u32,
) -> Result<Vec<HistoryRecord>, StoreError> {
    let rows = sqlx::query!(
        r#"
        WITH page AS (
            SELECT event, generation, ordinal, source, version, verdict, at_us FROM changes
            WHERE entity = $1 AND key = $2 AND ($3::uuid IS NULL OR event < $3)
            ORDER BY event DESC FETCH FIRST $4 ROWS WITH TIES
        )
        SELECT event AS "event!", page.source AS "source!", events.type AS "event_type?", version AS "version!",
               verdict AS "verdict!", at_us AS "at_us!"
        FROM page LEFT JOIN events ON events.id = page.event
        ORDER BY event DESC, page.generation DESC, ordinal DESC
        "#,
        entity,
        key,
        before.map(|id| id.as_uuid()),
        i64::from(limit),
    )
    .fetch_all(&mut *sessions.take().await?)
    .await
    .map_err(|e| store_error(&e))?;
    let records = rows.into_iter().map(|row| {
        Ok(HistoryRecord {
            event: row.event.into(),
            source: source(&row.source)?,
            event_type: row.event_type,
            version: row.version,
            verdict: verdict(&row.verdict)?,
            at: Timestamp::from_micros(row.at_us),
        })
    });
    records.collect()
}

fn record(row: Found) -> Result<EntityRecord, StoreError> {
    Ok(EntityRecord {
        entity: entity_kind(&row.entity)?,
        key: row.key,
        state: row.state.as_deref().map(canonical).transpose()?,
        version: row.version,
        deleted: row.deleted,
        event: row.event.into(),
        updated_at: Timestamp::from_micros(row.updated_at_us),
    })
}

/// jsonb's own text has other spaces and another order of members than the canonical one; its numbers are exact.
fn canonical(text: &str) -> Result<String, StoreError> {
    let mut reader = serde_json::Deserializer::from_str(text);
    reader.disable_recursion_limit();
    serde_json::Value::deserialize(&mut reader)
        .map(|value| value.to_string())
        .map_err(|_| StoreError::Failed("a stored state is not JSON".into()))
}
