//! What people look at, on connections that only read.

mod entities;
mod events;
mod filter;

use crate::SqliteBackend;
use crate::error::{damaged, store_error};
use async_trait::async_trait;
use bytes::Bytes;
use oncefold_core::event::EventStatus;
use oncefold_core::id::{EventUuid, SourceName};
use oncefold_core::message::FactsJson;
use oncefold_core::store::{
    AttemptRecord, DeadLetterGroup, EntityFilter, EntityRecord, EventFilter, EventRecord, HistoryRecord, ReadStore,
    SourceRecord, StoreError, StoredBody,
};
use oncefold_core::time::Timestamp;

#[async_trait]
impl ReadStore for SqliteBackend {
    async fn events(&self, filter: &EventFilter) -> Result<Vec<EventRecord>, StoreError> {
        let mut conn = self.readers.acquire().await.map_err(store_error)?;
        let ids = filter::matching(&mut conn, filter).await?;
        events::records(&mut conn, &ids).await
    }

    async fn event(&self, id: EventUuid) -> Result<Option<EventRecord>, StoreError> {
        let mut conn = self.readers.acquire().await.map_err(store_error)?;
        Ok(events::records(&mut conn, &[id.as_bytes().to_vec()]).await?.pop())
    }

    async fn attempts(&self, id: EventUuid) -> Result<Vec<AttemptRecord>, StoreError> {
        let id = &id.as_bytes()[..];
        let rows = sqlx::query!(
            "SELECT attempt, at_us, status, reason, message FROM attempts WHERE event = ? ORDER BY attempt",
            id
        )
        .fetch_all(&self.readers)
        .await
        .map_err(store_error)?;
        let record = rows.into_iter().map(|row| {
            Ok(AttemptRecord {
                attempt: u32::try_from(row.attempt).map_err(|_| damaged("a count"))?,
                at: Timestamp::from_micros(row.at_us),
                status: EventStatus::parse(&row.status).ok_or_else(|| damaged("an event status"))?,
                error: row.reason.zip(row.message),
            })
        });
        record.collect()
    }

    async fn body(&self, id: EventUuid) -> Result<Option<StoredBody>, StoreError> {
        let id = &id.as_bytes()[..];
        let row = sqlx::query!(
            r#"SELECT facts AS "facts!", body AS "body!: Vec<u8>" FROM held_bodies WHERE id = ?1
               UNION ALL
               SELECT b.facts, b.body FROM events e JOIN bodies b ON b.id = e.id AND b.stored_at_us = e.stored_at_us
               WHERE e.id = ?1
               LIMIT 1"#,
            id
        )
        .fetch_optional(&self.readers)
        .await
        .map_err(store_error)?;
        Ok(row.map(|row| StoredBody {
            body: Bytes::from(row.body),
            content_type: FactsJson::from_text(row.facts).decode().content_type,
        }))
    }

    async fn dead_letter_groups(&self) -> Result<Vec<DeadLetterGroup>, StoreError> {
        let rows = sqlx::query!(
            r#"SELECT source AS "source!", type AS event_type, reason AS "reason!", count(*) AS "count!: i64",
                      min(received_at_us) AS "oldest!: i64", max(received_at_us) AS "newest!: i64",
                      unhex(substr(max(printf('%020d', received_at_us) || hex(id)), 21)) AS "example!: Vec<u8>"
               FROM events INDEXED BY events_parked WHERE status IN ('dead', 'retrying', 'queued') AND status = 'dead'
               GROUP BY source, type, reason ORDER BY count(*) DESC, source, type, reason"#
        )
        .fetch_all(&self.readers)
        .await
        .map_err(store_error)?;
        let group = rows.into_iter().map(|row| {
            Ok(DeadLetterGroup {
                source: SourceName::parse(&row.source).map_err(|_| damaged("a source name"))?,
                event_type: row.event_type,
                reason: row.reason,
                count: row.count.unsigned_abs(),
                oldest: Timestamp::from_micros(row.oldest),
                newest: Timestamp::from_micros(row.newest),
                example: event_uuid(row.example)?,
            })
        });
        group.collect()
    }

    async fn entities(&self, filter: &EntityFilter) -> Result<Vec<EntityRecord>, StoreError> {
        entities::page(self, filter).await
    }

    async fn entity(&self, entity: &str, key: &str) -> Result<Option<EntityRecord>, StoreError> {
        entities::one(self, entity, key).await
    }

    async fn history(
        &self,
        entity: &str,
        key: &str,
        before: Option<EventUuid>,
        limit: u32,
    ) -> Result<Vec<HistoryRecord>, StoreError> {
        entities::history(self, (entity, key), before, limit).await
    }

    async fn sources(&self) -> Result<Vec<SourceRecord>, StoreError> {
        let rows = sqlx::query!(r#"SELECT name AS "name!", first_seen_at_us FROM sources ORDER BY name"#)
            .fetch_all(&self.readers)
            .await
            .map_err(store_error)?;
        let record = rows.into_iter().map(|row| {
            Ok(SourceRecord {
                name: SourceName::parse(&row.name).map_err(|_| damaged("a source name"))?,
                first_seen_at: Timestamp::from_micros(row.first_seen_at_us),
            })
        });
        record.collect()
    }
}

fn event_uuid(bytes: Vec<u8>) -> Result<EventUuid, StoreError> {
    bytes.try_into().map(EventUuid::from_bytes).map_err(|_| damaged("an event id"))
}

/// An id that no event's is lower than, or the cursor.
fn before_or_all(before: Option<EventUuid>) -> Vec<u8> {
    before.map_or_else(|| vec![0xFF; 17], |id| id.as_bytes().to_vec())
}
