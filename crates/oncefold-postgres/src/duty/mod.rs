//! What background duties need.

mod days;
mod prune;

use crate::PostgresStore;
use crate::convert::{count, source};
use crate::error::store_error;
use async_trait::async_trait;
use oncefold_core::id::SourceName;
use oncefold_core::store::{DutyStore, Election, Gauges, Prune, Pruned, StoreError};
use oncefold_core::time::Timestamp;
use std::collections::BTreeMap;

impl PostgresStore {
    /// The oldest spooled delivery of each source. From source to source through the index: the spool may be long.
    async fn oldest_spooled(&self) -> Result<Vec<(SourceName, Timestamp)>, StoreError> {
        let rows = sqlx::query!(
            r#"
            WITH RECURSIVE oldest AS (
                (SELECT source, received_at_us FROM spool ORDER BY source, received_at_us LIMIT 1)
                UNION ALL
                SELECT next.source, next.received_at_us FROM oldest CROSS JOIN LATERAL (
                    SELECT source, received_at_us FROM spool WHERE spool.source > oldest.source
                    ORDER BY source, received_at_us LIMIT 1
                ) AS next
            )
            SELECT source AS "source!", received_at_us AS "received_at_us!" FROM oldest
            "#
        )
        .fetch_all(&mut *self.sessions.take().await?)
        .await
        .map_err(|e| store_error(&e))?;
        rows.iter().map(|row| Ok((source(&row.source)?, Timestamp::from_micros(row.received_at_us)))).collect()
    }
}

#[async_trait]
impl DutyStore for PostgresStore {
    async fn elect(&self, election: &Election) -> Result<bool, StoreError> {
        sqlx::query!(
            "INSERT INTO duties (duty, holder, lease_until_us) VALUES ($1, $2, $4)
             ON CONFLICT (duty) DO UPDATE SET holder = excluded.holder, lease_until_us = excluded.lease_until_us
             WHERE duties.holder = excluded.holder OR duties.lease_until_us <= $3",
            election.duty,
            election.holder,
            election.now.as_micros(),
            election.lease_until.as_micros(),
        )
        .execute(&mut *self.sessions.take().await?)
        .await
        .map(|done| done.rows_affected() == 1)
        .map_err(|e| store_error(&e))
    }

    async fn gauges(&self) -> Result<Gauges, StoreError> {
        let rows = sqlx::query!(
            r#"
            SELECT source, count(*) FILTER (WHERE status = 'dead') AS "dead!",
                   min(received_at_us) FILTER (WHERE status IN ('queued', 'retrying')) AS oldest_us
            FROM events WHERE status IN ('dead', 'retrying', 'queued')
            GROUP BY source ORDER BY source
            "#
        )
        .fetch_all(&mut *self.sessions.take().await?)
        .await
        .map_err(|e| store_error(&e))?;
        let mut dead_letters = Vec::new();
        let mut oldest: BTreeMap<SourceName, Timestamp> = self.oldest_spooled().await?.into_iter().collect();
        for row in rows {
            let source = source(&row.source)?;
            if row.dead > 0 {
                dead_letters.push((source.clone(), count(row.dead)));
            }
            if let Some(received) = row.oldest_us.map(Timestamp::from_micros) {
                oldest.entry(source).and_modify(|oldest| *oldest = received.min(*oldest)).or_insert(received);
            }
        }
        Ok(Gauges { dead_letters, oldest_unapplied: oldest.into_iter().collect() })
    }

    async fn prepare_days(&self, now: Timestamp) -> Result<(), StoreError> {
        days::prepare(&self.sessions, now).await
    }

    async fn prune(&self, prune: &Prune) -> Result<Pruned, StoreError> {
        prune::run(&self.sessions, prune).await
    }
}
