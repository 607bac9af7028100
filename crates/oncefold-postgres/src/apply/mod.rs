//! Applying a batch: claim, fold in, record; one transaction.

mod entities;
mod events;
mod play;
pub(crate) mod record;
mod row;

use crate::error::store_error;
use crate::rules::hold_version;
use crate::{ACQUIRE_TIMEOUT, PostgresStore};
use async_trait::async_trait;
use entities::Sourced;
use events::Claimed;
use oncefold_core::change::Verdict;
use oncefold_core::prepare::Plan;
use oncefold_core::store::{ApplyBatch, ApplyStore, Outcome, Settled, StoreError};
use play::Play;
use record::Judged;
use sqlx::{PgConnection, Postgres, Transaction};
use tokio::time::timeout;

#[async_trait]
impl ApplyStore for PostgresStore {
    /// Begins on a connection that was used before without asking first whether it still lives; if it does not, begins
    /// as usual.
    async fn apply(&self, batch: ApplyBatch) -> Result<Vec<Outcome>, StoreError> {
        if let Some(mut session) = self.sessions.idle() {
            let applied = match timeout(ACQUIRE_TIMEOUT, session.begin()).await {
                Ok(Ok(transaction)) => Some(apply_in(transaction, &batch).await),
                Ok(Err(_)) => None,
                Err(_) => {
                    let seconds = ACQUIRE_TIMEOUT.as_secs();
                    Some(Err(StoreError::Unavailable(format!("no answer within {seconds} s"))))
                }
            };
            if let Some(applied) = applied {
                return self.sessions.judged(session, applied);
            }
        }
        let mut session = self.sessions.take().await?;
        let transaction = session.begin().await.map_err(|e| store_error(&e))?;
        let applied = apply_in(transaction, &batch).await;
        self.sessions.judged(session, applied)
    }
}

async fn apply_in(mut transaction: Transaction<'_, Postgres>, batch: &ApplyBatch) -> Result<Vec<Outcome>, StoreError> {
    let play = settle(&mut transaction, batch).await?;
    let verdicts = record(&mut transaction, batch, &play).await?;
    transaction.commit().await.map_err(|e| store_error(&e))?;
    let outcomes = play.outcomes.into_iter().zip(verdicts).map(|(outcome, verdicts)| {
        let (settled, variant) = outcome.ok_or_else(|| StoreError::Failed("an event got no verdict".into()))?;
        Ok(Outcome { settled, variant, verdicts })
    });
    outcomes.collect()
}

/// Finds out which events are new, and what becomes of the others; afterwards their rows are as they will stay.
async fn settle<'a>(connection: &mut PgConnection, batch: &'a ApplyBatch) -> Result<Play<'a>, StoreError> {
    let mut play = Play::begin(batch);
    let hoped = play.hoped();
    let claimed = if hoped.is_empty() {
        hold_version(connection).await?;
        Claimed::All
    } else {
        events::claim(connection, &hoped).await?
    };
    play.claimed(&claimed);
    if play.rest().next().is_none() {
        return Ok(play);
    }
    let rows = events::lock(connection, play.rest()).await?;
    let inserted = play.settle_rest(rows)?;
    let variants: Vec<_> = play.fresh[inserted..].iter().map(|fresh| &fresh.row).collect();
    if !variants.is_empty() && !matches!(events::claim(connection, &variants).await?, Claimed::All) {
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
    let mut judged = vec![];
    if !changes.is_empty() {
        let sourced: Vec<_> =
            changes.iter().map(|(_, message, _, change)| Sourced { change, event: message.id }).collect();
        let given = entities::fold_in(connection, &sourced, batch.now).await?;
        for ((at, message, ordinal, change), verdict) in changes.into_iter().zip(given) {
            judged.push(Judged { message, ordinal, change, verdict });
            verdicts[at].push(verdict);
        }
    }
    let rules_version = record::log(connection, batch, &judged, &play.fresh).await.map_err(|e| store_error(&e))?;
    if rules_version > batch.rules_version {
        return Err(StoreError::RulesBehind);
    }
    let released = play.newly_settled();
    if !released.is_empty() {
        record::release(connection, &released, batch.now).await.map_err(|e| store_error(&e))?;
    }
    record::attempts(connection, batch, &play.given).await.map_err(|e| store_error(&e))?;
    Ok(verdicts)
}
