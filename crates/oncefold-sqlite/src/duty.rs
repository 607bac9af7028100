use crate::SqliteBackend;
use crate::error::{damaged, store_error};
use async_trait::async_trait;
use oncefold_core::id::{EventUuid, SourceName};
use oncefold_core::store::{DutyStore, Election, Gauges, Prune, Pruned, StoreError};
use oncefold_core::time::Timestamp;
use sqlx::SqliteConnection;
use std::collections::BTreeMap;
use std::time::Duration;

/// An event is settled no earlier than it was received, which its id tells; clocks of two hosts may differ by this.
/// So the primary key narrows a search for what is old.
const CLOCKS_DIFFER_MAX: Duration = Duration::from_secs(24 * 3600);

fn source_name(text: &str) -> Result<SourceName, StoreError> {
    SourceName::parse(text).map_err(|_| damaged("a source name"))
}

impl SqliteBackend {
    /// The first message of each work queue, from name to name through the index: queues may be long. What is sent again
    /// is in the log with its own `received_at`; all else came in the order it was received.
    async fn first_waiting(&self) -> Result<Vec<(SourceName, Timestamp)>, StoreError> {
        let rows = sqlx::query!(
            r#"WITH RECURSIVE names (name) AS (
                   SELECT min(name) FROM queue
                   UNION ALL
                   SELECT (SELECT min(name) FROM queue WHERE name > names.name) FROM names WHERE name IS NOT NULL)
               SELECT source AS "source!", received_at_us AS "received_at_us!"
               FROM names CROSS JOIN queue ON queue.sequence = (SELECT min(sequence) FROM queue WHERE name = names.name)
               WHERE names.name LIKE 'oncefold.work.%'"#
        )
        .fetch_all(&self.readers)
        .await
        .map_err(store_error)?;
        rows.iter().map(|row| Ok((source_name(&row.source)?, Timestamp::from_micros(row.received_at_us)))).collect()
    }
}

#[async_trait]
impl DutyStore for SqliteBackend {
    async fn elect(&self, election: &Election) -> Result<bool, StoreError> {
        self.writer.run(election.clone(), |conn, election| Box::pin(elect(conn, election))).await
    }

    async fn gauges(&self) -> Result<Gauges, StoreError> {
        let rows = sqlx::query!(
            r#"SELECT source AS "source!", sum(status = 'dead') AS "dead!: i64",
                      min(CASE WHEN status <> 'dead' THEN received_at_us END) AS "oldest: i64"
               FROM events WHERE status IN ('dead', 'retrying', 'queued') GROUP BY source ORDER BY source"#
        )
        .fetch_all(&self.readers)
        .await
        .map_err(store_error)?;
        let mut dead_letters = Vec::new();
        let mut oldest: BTreeMap<SourceName, Timestamp> = self.first_waiting().await?.into_iter().collect();
        for row in rows {
            let source = source_name(&row.source)?;
            if row.dead > 0 {
                dead_letters.push((source.clone(), row.dead.unsigned_abs()));
            }
            if let Some(received) = row.oldest.map(Timestamp::from_micros) {
                oldest.entry(source).and_modify(|oldest| *oldest = received.min(*oldest)).or_insert(received);
            }
        }
        Ok(Gauges { dead_letters, oldest_unapplied: oldest.into_iter().collect() })
    }

    async fn prepare_days(&self, _now: Timestamp) -> Result<(), StoreError> {
        Ok(())
    }

    async fn prune(&self, prune: &Prune) -> Result<Pruned, StoreError> {
        self.writer.run_alone(*prune, |conn, prune| Box::pin(forget(conn, *prune))).await
    }
}

/// Writes without changing anything.
pub(crate) async fn touch(conn: &mut SqliteConnection) -> Result<(), StoreError> {
    sqlx::query!("UPDATE rules_version SET version = version").execute(conn).await.map(|_| ()).map_err(store_error)
}

async fn elect(conn: &mut SqliteConnection, election: &Election) -> Result<bool, StoreError> {
    let (now, lease_until) = (election.now.as_micros(), election.lease_until.as_micros());
    let held = sqlx::query!(
        "INSERT INTO duties (duty, holder, lease_until_us) VALUES (?1, ?2, ?3)
         ON CONFLICT (duty) DO UPDATE SET holder = excluded.holder, lease_until_us = excluded.lease_until_us
         WHERE duties.holder = excluded.holder OR duties.lease_until_us <= ?4",
        election.duty,
        election.holder,
        lease_until,
        now
    )
    .execute(conn)
    .await
    .map_err(store_error)?;
    Ok(held.rows_affected() == 1)
}

async fn forget(conn: &mut SqliteConnection, prune: Prune) -> Result<Pruned, StoreError> {
    let limit = i64::from(prune.limit);
    let (bodies, changes) = forget_bodies(conn, prune.bodies_before, limit).await?;
    let events = forget_events(conn, prune.ids_before, limit).await?;
    let rejected = crate::rejected::forget(conn, prune.bodies_before, limit).await?;
    Ok(Pruned { bodies, changes, events, rejected })
}

/// Bodies, and changes.
async fn forget_bodies(conn: &mut SqliteConnection, before: Timestamp, limit: i64) -> Result<(u64, u64), StoreError> {
    let (highest, before) = (EventUuid::lowest_at(before.plus(CLOCKS_DIFFER_MAX)), before.as_micros());
    let highest = &highest.as_bytes()[..];
    let bodies = sqlx::query!(
        "DELETE FROM bodies WHERE rowid IN
             (SELECT rowid FROM bodies WHERE id < ?1 AND stored_at_us < ?2 LIMIT ?3)",
        highest,
        before,
        limit
    )
    .execute(&mut *conn)
    .await
    .map_err(store_error)?;
    let changes = sqlx::query!(
        "DELETE FROM changes WHERE (event, generation, ordinal, at_us) IN
             (SELECT event, generation, ordinal, at_us FROM changes WHERE event < ?1 AND at_us < ?2 LIMIT ?3)",
        highest,
        before,
        limit
    )
    .execute(conn)
    .await
    .map_err(store_error)?;
    Ok((bodies.rows_affected(), changes.rows_affected()))
}

async fn forget_events(conn: &mut SqliteConnection, before: Timestamp, limit: i64) -> Result<u64, StoreError> {
    let (highest, before) = (EventUuid::lowest_at(before.plus(CLOCKS_DIFFER_MAX)), before.as_micros());
    let highest = &highest.as_bytes()[..];
    let deleted = sqlx::query!(
        "DELETE FROM events WHERE id IN
             (SELECT id FROM events
              WHERE id < ?1 AND status IN ('applied', 'ignored', 'discarded') AND settled_at_us < ?2
              ORDER BY id LIMIT ?3)",
        highest,
        before,
        limit
    )
    .execute(conn)
    .await
    .map_err(store_error)?;
    Ok(deleted.rows_affected())
}
