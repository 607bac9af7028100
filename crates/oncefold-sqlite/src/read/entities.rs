use super::{before_or_all, event_uuid};
use crate::SqliteBackend;
use crate::error::{damaged, store_error};
use oncefold_core::change::Verdict;
use oncefold_core::id::{EntityKind, EventUuid, SourceName};
use oncefold_core::limits::KEY_BYTES_MAX;
use oncefold_core::store::{EntityFilter, EntityRecord, HistoryRecord, StoreError};
use oncefold_core::time::Timestamp;

struct Row {
    entity: String,
    key: String,
    state: Option<String>,
    version: String,
    deleted: i64,
    event: Vec<u8>,
    updated_at_us: i64,
}

/// A page by (entity, key): ranges of the primary key, so that a page costs what it shows.
pub(super) async fn page(backend: &SqliteBackend, filter: &EntityFilter) -> Result<Vec<EntityRecord>, StoreError> {
    let highest = char::MAX.to_string();
    let prefix = filter.key_prefix.as_deref().unwrap_or_default();
    let (first_entity, last_entity) = filter.entity.as_deref().map_or(("", &highest[..]), |entity| (entity, entity));
    let (after_entity, after_key) = filter.after.as_ref().map_or(("", ""), |(entity, key)| (entity, key));
    // Where the search begins: at the cursor, or at the first key that the filter lets through.
    let first = (first_entity, if filter.entity.is_some() { prefix } else { "" });
    let (from_entity, from_key) = first.max((after_entity, after_key));
    // The highest text with this prefix that is no longer than a key may be.
    let prefix_end = format!("{prefix}{}", highest.repeat(KEY_BYTES_MAX / highest.len() + 1));
    let limit = i64::from(filter.limit);
    let rows = sqlx::query_as!(
        Row,
        "SELECT entity, key, state, version, deleted, event, updated_at_us FROM entities
         WHERE (entity, key) >= (?1, ?2) AND (entity, key) <= (?3, ?4) AND (+entity, +key) > (?5, ?6)
               AND substr(key, 1, length(?7)) = ?7 AND (?8 IS NULL OR deleted = ?8)
         ORDER BY entity, key LIMIT ?9",
        from_entity,
        from_key,
        last_entity,
        prefix_end,
        after_entity,
        after_key,
        prefix,
        filter.deleted,
        limit
    )
    .fetch_all(&backend.readers)
    .await
    .map_err(store_error)?;
    rows.into_iter().map(record).collect()
}

pub(super) async fn one(backend: &SqliteBackend, entity: &str, key: &str) -> Result<Option<EntityRecord>, StoreError> {
    let row = sqlx::query_as!(
        Row,
        "SELECT entity, key, state, version, deleted, event, updated_at_us FROM entities WHERE entity = ? AND key = ?",
        entity,
        key
    )
    .fetch_optional(&backend.readers)
    .await
    .map_err(store_error)?;
    row.map(record).transpose()
}

/// A page: the cursor is an event, so that the last event's changes are all in it.
pub(super) async fn history(
    backend: &SqliteBackend,
    (entity, key): (&str, &str),
    before: Option<EventUuid>,
    limit: u32,
) -> Result<Vec<HistoryRecord>, StoreError> {
    let (before, limit) = (before_or_all(before), i64::from(limit));
    let rows = sqlx::query!(
        r#"SELECT c.event, c.source, e.type AS "event_type?", c.version, c.verdict, c.at_us AS "at_us!"
           FROM changes c LEFT JOIN events e ON e.id = c.event
           WHERE c.entity = ?1 AND c.key = ?2 AND c.event < ?3
                 AND c.event >= (SELECT min(event) FROM (SELECT event FROM changes
                                                         WHERE entity = ?1 AND key = ?2 AND event < ?3
                                                         ORDER BY event DESC LIMIT ?4))
           ORDER BY c.event DESC, c.generation DESC, c.ordinal DESC"#,
        entity,
        key,
        before,
        limit
    )
    .fetch_all(&backend.readers)
    .await
    .map_err(store_error)?;
    let record = rows.into_iter().map(|row| {
        Ok(HistoryRecord {
            event: event_uuid(row.event)?,
            source: SourceName::parse(&row.source).map_err(|_| damaged("a source name"))?,
            event_type: row.event_type,
            version: row.version,
            verdict: Verdict::parse(&row.verdict).ok_or_else(|| damaged("a verdict"))?,
            at: Timestamp::from_micros(row.at_us),
        })
    });
    record.collect()
}

fn record(row: Row) -> Result<EntityRecord, StoreError> {
    Ok(EntityRecord {
        entity: EntityKind::parse(&row.entity).map_err(|_| damaged("an entity kind"))?,
        key: row.key,
        state: row.state,
        version: row.version,
        deleted: row.deleted != 0,
        event: event_uuid(row.event)?,
        updated_at: Timestamp::from_micros(row.updated_at_us),
    })
}
