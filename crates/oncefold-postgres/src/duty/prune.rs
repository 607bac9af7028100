//! Retention: whole days dropped, the rest in bounded batches.

use super::days::{TABLES, drop_day, partitions};
use crate::error::store_error;
use crate::session::{Session, Sessions};
use oncefold_core::id::EventUuid;
use oncefold_core::store::{Prune, Pruned, StoreError};
use sqlx::{Postgres, Transaction};

pub(super) async fn run(sessions: &Sessions, prune: &Prune) -> Result<Pruned, StoreError> {
    let session = &mut sessions.take().await?;
    let mut pruned = Pruned::default();
    for table in TABLES {
        for day in partitions(session, table).await? {
            if day.end() <= prune.bodies_before {
                drop_day(session, table, &day).await?;
                let days = if table == "bodies" { &mut pruned.bodies } else { &mut pruned.changes };
                *days += 1;
            }
        }
    }
    let (bodies, changes) = trim_default(session, prune).await.map_err(|e| store_error(&e))?;
    pruned.bodies += bodies;
    pruned.changes += changes;
    pruned.events = forget_events(session, prune).await.map_err(|e| store_error(&e))?;
    pruned.rejected = crate::rejected::forget(session, prune).await.map_err(|e| store_error(&e))?;
    Ok(pruned)
}

/// A transaction whose statements take as long as they take.
async fn patient(session: &mut Session) -> sqlx::Result<Transaction<'_, Postgres>> {
    let mut transaction = session.begin().await?;
    sqlx::query!("SELECT set_config('statement_timeout', '0', true)").fetch_one(&mut *transaction).await?;
    Ok(transaction)
}

/// Removes old rows that came in while their day had no partition.
async fn trim_default(session: &mut Session, prune: &Prune) -> sqlx::Result<(u64, u64)> {
    let mut transaction = patient(session).await?;
    let (before, limit) = (prune.bodies_before.as_micros(), i64::from(prune.limit));
    let changes = sqlx::query!(
        "DELETE FROM changes_default WHERE ctid = ANY(ARRAY(
             SELECT ctid FROM changes_default WHERE at_us < $1 LIMIT $2))",
        before,
        limit,
    )
    .execute(&mut *transaction)
    .await?;
    let bodies = sqlx::query!(
        "DELETE FROM bodies_default WHERE ctid = ANY(ARRAY(
             SELECT ctid FROM bodies_default WHERE stored_at_us < $1 LIMIT $2))",
        before,
        limit,
    )
    .execute(&mut *transaction)
    .await?;
    transaction.commit().await?;
    Ok((bodies.rows_affected(), changes.rows_affected()))
}

/// Removes settled events, oldest first. Their ids follow time, so old ones are found at one end of the primary key:
/// what is settled was received before.
async fn forget_events(session: &mut Session, prune: &Prune) -> sqlx::Result<u64> {
    let mut transaction = patient(session).await?;
    let events = sqlx::query!(
        "WITH old AS (
             SELECT id FROM events
             WHERE id < $1 AND settled_at_us < $2 AND status IN ('applied', 'ignored', 'discarded')
             ORDER BY id LIMIT $3 FOR UPDATE SKIP LOCKED
         )
         DELETE FROM events USING old WHERE events.id = old.id",
        EventUuid::lowest_at(prune.ids_before).as_uuid(),
        prune.ids_before.as_micros(),
        i64::from(prune.limit),
    )
    .execute(&mut *transaction)
    .await?;
    transaction.commit().await?;
    Ok(events.rows_affected())
}
