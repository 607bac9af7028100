use crate::SqliteBackend;
use crate::error::store_error;
use async_trait::async_trait;
use oncefold_core::id::EventUuid;
use oncefold_core::limits::TRIAL_STARTS_MAX;
use oncefold_core::message::Message;
use oncefold_core::store::{StoreError, Trial, TrialStart, TrialStore, variant_event_id};
use oncefold_core::time::Timestamp;
use sqlx::SqliteConnection;

#[async_trait]
impl TrialStore for SqliteBackend {
    async fn begin_trial(&self, trial: &Trial) -> Result<TrialStart, StoreError> {
        self.writer.run(trial.clone(), |conn, trial| Box::pin(begin(conn, trial))).await
    }

    async fn end_trial(&self, id: EventUuid, generation: u32) -> Result<(), StoreError> {
        self.writer.run((id, generation), |conn, (id, generation)| Box::pin(end(conn, *id, *generation))).await
    }

    async fn is_recorded(&self, message: &Message) -> Result<bool, StoreError> {
        let (id, digest) = (&message.id.as_bytes()[..], &message.digest.as_bytes()[..]);
        let (source, event_id) = (message.source.as_str(), &message.event_id);
        let variant = variant_event_id(event_id, &message.digest);
        sqlx::query_scalar!(
            r#"SELECT (EXISTS (SELECT 1 FROM events
                               WHERE id = ?1 AND NOT (status = 'queued' AND generation = ?2))
                       OR ?2 = 0 AND EXISTS (SELECT 1 FROM events
                                             WHERE source = ?3 AND event_id IN (?4, ?5) AND body_digest = ?6)
                      ) AS "recorded!: bool""#,
            id,
            message.generation,
            source,
            event_id,
            variant,
            digest
        )
        .fetch_one(&self.readers)
        .await
        .map_err(store_error)
    }
}

async fn begin(conn: &mut SqliteConnection, trial: &Trial) -> Result<TrialStart, StoreError> {
    let id = &trial.id.as_bytes()[..];
    let (now, lease_until) = (trial.now.as_micros(), trial.lease_until.as_micros());
    let settled = sqlx::query_scalar!(
        r#"SELECT EXISTS (SELECT 1 FROM events WHERE id = ?1 AND NOT (status = 'queued' AND generation = ?2))
           AS "settled!: bool""#,
        id,
        trial.generation
    )
    .fetch_one(&mut *conn)
    .await
    .map_err(store_error)?;
    if settled {
        return Ok(TrialStart::Settled);
    }
    let marked = sqlx::query!(
        "INSERT INTO trials (id, generation, holder, started_at_us, lease_until_us) VALUES (?, ?, ?, ?, ?)
         ON CONFLICT (id, generation) DO UPDATE
         SET holder = excluded.holder, started_at_us = excluded.started_at_us,
             lease_until_us = excluded.lease_until_us, starts = starts + (holder <> excluded.holder)
         WHERE trials.holder = excluded.holder
               OR trials.lease_until_us <= excluded.started_at_us AND trials.starts < ?",
        id,
        trial.generation,
        trial.holder,
        now,
        lease_until,
        TRIAL_STARTS_MAX
    )
    .execute(&mut *conn)
    .await
    .map_err(store_error)?;
    if marked.rows_affected() == 1 {
        return Ok(TrialStart::Begun);
    }
    let lease =
        sqlx::query_scalar!("SELECT lease_until_us FROM trials WHERE id = ? AND generation = ?", id, trial.generation)
            .fetch_one(conn)
            .await
            .map_err(store_error)?;
    Ok(if lease > now { TrialStart::Busy(Timestamp::from_micros(lease)) } else { TrialStart::Interrupted })
}

async fn end(conn: &mut SqliteConnection, id: EventUuid, generation: u32) -> Result<(), StoreError> {
    let id = &id.as_bytes()[..];
    sqlx::query!("DELETE FROM trials WHERE id = ? AND generation = ?", id, generation)
        .execute(conn)
        .await
        .map(|_| ())
        .map_err(store_error)
}
