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
use crate::queue::{self, HeldRow};
use crate::rows::array;
use async_trait::async_trait;
use oncefold_core::queue::Settlement;
use oncefold_core::store::{ApplyBatch, ApplyStore, Outcome, StoreError};
use sqlx::SqliteConnection;

/// A batch, and the rows of the queue that brought it, item by item.
struct Applying {
    batch: ApplyBatch,
    rows: Vec<Option<HeldRow>>,
}

#[async_trait]
impl ApplyStore for SqliteBackend {
    /// A message whose verdict is on record has done its work: its row leaves the queue in the same transaction, unless
    /// it travels on to the dead letters.
    async fn apply(&self, batch: ApplyBatch) -> Result<Vec<Outcome>, StoreError> {
        if batch.items.is_empty() {
            return Ok(Vec::new());
        }
        let rows = self.lines.rows_of(batch.items.iter().map(|item| &*item.message));
        let applying = Applying { batch, rows };
        let (outcomes, deleted) =
            self.writer.run_alone(applying, |conn, applying| Box::pin(apply(conn, applying))).await?;
        deleted.iter().for_each(HeldRow::is_deleted);
        Ok(outcomes)
    }
}

async fn apply(
    conn: &mut SqliteConnection,
    Applying { batch, rows }: &Applying,
) -> Result<(Vec<Outcome>, Vec<HeldRow>), StoreError> {
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
    let (done, dead): (Vec<_>, Vec<_>) =
        claims.iter().zip(rows).partition(|(claim, _)| claim.settled.settlement() == Settlement::Ack);
    // Noted before the commit: who writes next may have a copy of such a message.
    dead.iter().filter_map(|(_, row)| row.as_ref()).for_each(HeldRow::travels_on);
    let done: Vec<HeldRow> = done.into_iter().filter_map(|(_, row)| row.clone()).filter(HeldRow::may_go).collect();
    if !done.is_empty() {
        queue::delete(conn, &array(done.iter().map(|row| row.sequence))).await?;
    }
    let outcomes = claims.iter().enumerate().map(|(at, claim)| Outcome {
        settled: claim.settled,
        variant: claim.variant,
        verdicts: std::mem::take(&mut verdicts[at]),
    });
    Ok((outcomes.collect(), done))
}
