//! What people look at.

mod entities;
mod events;

use crate::PostgresStore;
use crate::convert::{count, small, source, status};
use crate::error::store_error;
use crate::session::Session;
use async_trait::async_trait;
use oncefold_core::id::EventUuid;
use oncefold_core::message::FactsJson;
use oncefold_core::store::{
    AttemptRecord, DeadLetterGroup, EntityFilter, EntityRecord, EventFilter, EventRecord, HistoryRecord, ReadStore,
    SourceRecord, StoreError, StoredBody,
};
use oncefold_core::time::Timestamp;
use sqlx::{Postgres, Transaction};

#[async_trait]
impl ReadStore for PostgresStore {
    async fn events(&self, filter: &EventFilter) -> Result<Vec<EventRecord>, StoreError> {
        events::page(&self.sessions, filter).await
    }

    async fn event(&self, id: EventUuid) -> Result<Option<EventRecord>, StoreError> {
        events::one(&self.sessions, id).await
    }

    async fn attempts(&self, id: EventUuid) -> Result<Vec<AttemptRecord>, StoreError> {
        let rows = sqlx::query!(
            "SELECT attempt, at_us, status, reason, message FROM attempts WHERE event = $1 ORDER BY attempt",
            id.as_uuid(),
        )
        .fetch_all(&mut *self.sessions.take().await?)
        .await
        .map_err(|e| store_error(&e))?;
        let attempts = rows.into_iter().map(|row| {
            Ok(AttemptRecord {
                attempt: small(row.attempt),
                at: Timestamp::from_micros(row.at_us),
                status: status(&row.status)?,
                error: row.reason.map(|reason| (reason, row.message.unwrap_or_default())),
            })
        });
        attempts.collect()
    }

    async fn body(&self, id: EventUuid) -> Result<Option<StoredBody>, StoreError> {
        let found = sqlx::query!(
            r#"
            SELECT COALESCE(held.facts, kept.facts) AS facts, COALESCE(held.body, kept.body) AS body
            FROM events
            LEFT JOIN held_bodies held ON held.id = events.id
            LEFT JOIN bodies kept ON kept.id = events.id AND kept.stored_at_us = events.stored_at_us
            WHERE events.id = $1
            "#,
            id.as_uuid(),
        )
        .fetch_optional(&mut *self.sessions.take().await?)
        .await
        .map_err(|e| store_error(&e))?;
        Ok(found.and_then(|row| {
            let content_type = FactsJson::from_text(row.facts?).decode().content_type;
            Some(StoredBody { body: row.body?.into(), content_type })
        }))
    }

    async fn dead_letter_groups(&self) -> Result<Vec<DeadLetterGroup>, StoreError> {
        let rows = sqlx::query!(
            r#"
            SELECT source, type AS event_type, reason AS "reason!", count(*) AS "count!",
                   min(received_at_us) AS "oldest_us!", max(received_at_us) AS "newest_us!",
                   (ARRAY_AGG(id ORDER BY received_at_us DESC, id DESC))[1] AS "example!"
            FROM events WHERE status = 'dead'
            GROUP BY source, type, reason
            ORDER BY count(*) DESC, source, type NULLS FIRST, reason
            "#
        )
        .fetch_all(&mut *self.sessions.take().await?)
        .await
        .map_err(|e| store_error(&e))?;
        let groups = rows.into_iter().map(|row| {
            Ok(DeadLetterGroup {
                source: source(&row.source)?,
                event_type: row.event_type,
                reason: row.reason,
                count: count(row.count),
                oldest: Timestamp::from_micros(row.oldest_us),
                newest: Timestamp::from_micros(row.newest_us),
                example: row.example.into(),
            })
        });
        groups.collect()
    }

    async fn entities(&self, filter: &EntityFilter) -> Result<Vec<EntityRecord>, StoreError> {
        entities::page(&self.sessions, filter).await
    }

    async fn entity(&self, entity: &str, key: &str) -> Result<Option<EntityRecord>, StoreError> {
        entities::one(&self.sessions, entity, key).await
    }

    async fn history(
        &self,
        entity: &str,
        key: &str,
        before: Option<EventUuid>,
        limit: u32,
    ) -> Result<Vec<HistoryRecord>, StoreError> {
        entities::history(&self.sessions, (entity, key), before, limit).await
    }

    async fn sources(&self) -> Result<Vec<SourceRecord>, StoreError> {
        let rows = sqlx::query!("SELECT name, first_seen_at_us FROM sources ORDER BY name")
            .fetch_all(&mut *self.sessions.take().await?)
            .await
            .map_err(|e| store_error(&e))?;
        let sources = rows.into_iter().map(|row| {
            let first_seen_at = Timestamp::from_micros(row.first_seen_at_us);
            Ok(SourceRecord { name: source(&row.name)?, first_seen_at })
        });
        sources.collect()
    }
}

/// For queries with optional filters: each is planned for the filters it has, not once for all combinations.
async fn planned_afresh(session: &mut Session) -> sqlx::Result<Transaction<'_, Postgres>> {
    let mut transaction = session.begin().await?;
    sqlx::query!("SELECT set_config('plan_cache_mode', 'force_custom_plan', true)")
        .fetch_one(&mut *transaction)
        .await?;
    Ok(transaction)
}
