//! Applying a batch: load what is known of its events, decide in memory in the order they were received, write the
//! differences set by set. Nobody else writes meanwhile, since the transaction took the write lock first; unique
//! constraints hold all the same.

mod entities;
mod load;
mod log;
mod save;

pub(crate) use self::save::release;

use self::log::Log;
use crate::SqliteBackend;
use crate::error::store_error;
use async_trait::async_trait;
use oncefold_core::store::{ApplyBatch, ApplyStore, Outcome, StoreError};
use sqlx::SqliteConnection;

#[async_trait]
impl ApplyStore for SqliteBackend {
    async fn apply(&self, batch: ApplyBatch) -> Result<Vec<Outcome>, StoreError> {
        if batch.items.is_empty() {
            return Ok(Vec::new());
        }
        self.writer.run_alone(batch, |conn, batch| Box::pin(apply(conn, batch))).await
    }
}

async fn apply(conn: &mut SqliteConnection, batch: &ApplyBatch) -> Result<Vec<Outcome>, StoreError> {
    let stored =
        sqlx::query_scalar!("SELECT version FROM rules_version").fetch_one(&mut *conn).await.map_err(store_error)?;
    if stored > batch.rules_version {
        return Err(StoreError::RulesBehind);
    }
    let mut log = Log::of(load::known_events(conn, &batch.items).await?, batch.now);
    let claims: Vec<_> = batch.items.iter().map(|item| log.take(item)).collect();
    save::events(conn, &log).await?;
    save::bodies(conn, &log).await?;
    save::attempts(conn, &log).await?;
    let mut verdicts = entities::write(conn, batch, &log, &claims).await?;
    let outcomes = claims.iter().enumerate().map(|(at, claim)| Outcome {
        settled: claim.settled,
        variant: claim.variant,
        verdicts: std::mem::take(&mut verdicts[at]),
    });
    Ok(outcomes.collect())
}
