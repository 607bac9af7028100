//! Applying a batch: claim, fold in, record; one transaction.

mod entities;
mod events;
mod play;
pub(crate) mod record;
mod row;

use crate::PostgresStore;
use crate::error::store_error;
use crate::rules::hold_version;
use async_trait::async_trait;
use entities::Sourced;
use oncefold_core::change::Verdict;
use oncefold_core::prepare::Plan;
use oncefold_core::store::{ApplyBatch, ApplyStore, Outcome, Settled, StoreError};
use play::Play;
use record::Judged;
use sqlx::PgConnection;

#[async_trait]
impl ApplyStore for PostgresStore {
    async fn apply(&self, batch: ApplyBatch) -> Result<Vec<Outcome>, StoreError> {
        let mut transaction = self.pool.begin().await.map_err(|e| store_error(&e))?;
        hold_version(&mut transaction).await?;
        let play = settle(&mut transaction, &batch).await?;
        let verdicts = record(&mut transaction, &batch, &play).await?;
        transaction.commit().await.map_err(|e| store_error(&e))?;
        let outcomes = play.outcomes.into_iter().zip(verdicts).map(|(outcome, verdicts)| {
            let (settled, variant) = outcome.ok_or_else(|| StoreError::Failed("an event got no verdict".into()))?;
            Ok(Outcome { settled, variant, verdicts })
        });
        outcomes.collect()
    }
}

/// Finds out which events are new, and what becomes of the others; afterwards their rows are as they will stay.
async fn settle<'a>(connection: &mut PgConnection, batch: &'a ApplyBatch) -> Result<Play<'a>, StoreError> {
    let mut play = Play::begin(batch);
    let claimed = events::claim(connection, &play.hoped(), batch.rules_version).await?;
    play.claimed(&claimed);
    if play.rest().next().is_none() {
        return Ok(play);
    }
    let rows = events::lock(connection, play.rest()).await?;
    let inserted = play.settle_rest(rows)?;
    let variants: Vec<_> = play.fresh[inserted..].iter().map(|fresh| &fresh.row).collect();
    if !variants.is_empty() && events::claim(connection, &variants, batch.rules_version).await?.len() < variants.len() {
        return Err(StoreError::Conflict("the same variant of an event came in by another worker".into()));
    }
    let changed = play.changed();
    if !changed.is_empty() {
        events::update(connection, &changed).await?;
    }
    Ok(play)
}

/// Folds in the changes of what was applied, and keeps bytes, changes and attempts. Answers the verdicts of each item.
async fn record(
    connection: &mut PgConnection,
    batch: &ApplyBatch,
    play: &Play<'_>,
) -> Result<Vec<Vec<Verdict>>, StoreError> {
    let applied = batch.items.iter().zip(&play.outcomes).enumerate().filter_map(|(at, (item, outcome))| {
        match (&item.prepared.plan, outcome) {
            (Plan::Apply(changes), Some((Settled::Applied, _))) => Some((at, &*item.message, changes)),
            _ => None,
        }
    });
    let changes: Vec<_> = applied
        .flat_map(|(at, message, changes)| changes.iter().enumerate().map(move |(n, change)| (at, message, n, change)))
        .collect();
    let mut verdicts = vec![vec![]; batch.items.len()];
    if !changes.is_empty() {
        let sourced: Vec<_> =
            changes.iter().map(|(_, message, _, change)| Sourced { change, event: message.id }).collect();
        let given = entities::fold_in(connection, &sourced, batch.now).await?;
        let judged: Vec<_> = changes
            .iter()
            .zip(given)
            .map(|((_, message, ordinal, change), verdict)| Judged { message, ordinal: *ordinal, change, verdict })
            .collect();
        record::changes(connection, &judged, batch.now).await.map_err(|e| store_error(&e))?;
        for ((at, ..), judged) in changes.iter().zip(&judged) {
            verdicts[*at].push(judged.verdict);
        }
    }
    record::bodies(connection, batch, &play.fresh).await.map_err(|e| store_error(&e))?;
    let released = play.newly_settled();
    if !released.is_empty() {
        record::release(connection, &released, batch.now).await.map_err(|e| store_error(&e))?;
    }
    record::attempts(connection, batch, &play.given).await.map_err(|e| store_error(&e))?;
    Ok(verdicts)
}
