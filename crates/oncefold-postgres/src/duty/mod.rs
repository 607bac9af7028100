//! What background duties need.

mod days;
mod prune;

use crate::PostgresStore;
use crate::convert::{count, source};
use crate::error::store_error;
use async_trait::async_trait;
use oncefold_core::store::{DutyStore, Election, Gauges, Prune, Pruned, StoreError};
use oncefold_core::time::Timestamp;

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
        .execute(&self.pool)
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
        .fetch_all(&self.pool)
        .await
        .map_err(|e| store_error(&e))?;
        let mut gauges = Gauges::default();
        for row in rows {
            let source = source(&row.source)?;
            if row.dead > 0 {
                gauges.dead_letters.push((source.clone(), count(row.dead)));
            }
            if let Some(oldest) = row.oldest_us {
                gauges.oldest_unapplied.push((source, Timestamp::from_micros(oldest)));
            }
        }
        Ok(gauges)
    }

    async fn prepare_days(&self, now: Timestamp) -> Result<(), StoreError> {
        days::prepare(&self.pool, now).await
    }

    async fn prune(&self, prune: &Prune) -> Result<Pruned, StoreError> {
        prune::run(&self.pool, prune).await
    }
}
