//! Marks on suspects that are tried alone.

use crate::PostgresStore;
use crate::convert::integer;
use crate::error::store_error;
use async_trait::async_trait;
use oncefold_core::id::EventUuid;
use oncefold_core::limits::TRIAL_STARTS_MAX;
use oncefold_core::message::Message;
use oncefold_core::store::{StoreError, Trial, TrialStart, TrialStore, variant_event_id};
use oncefold_core::time::Timestamp;

/// As the database counts.
#[allow(clippy::cast_possible_wrap, reason = "a small constant")]
const STARTS_MAX: i32 = TRIAL_STARTS_MAX as i32;

impl PostgresStore {
    /// What the mark says that was in the way. A look of its own: the statement that found it there may not see it as
    /// it is, since another process may have taken it over in that moment.
    async fn mark_of_another(&self, trial: &Trial) -> Result<TrialStart, StoreError> {
        let mark = sqlx::query!(
            "SELECT lease_until_us, starts FROM trials WHERE id = $1 AND generation = $2",
            trial.id.as_uuid(),
            integer(trial.generation),
        )
        .fetch_optional(&mut *self.sessions.take().await?)
        .await
        .map_err(|e| store_error(&e))?;
        match mark.map(|mark| (Timestamp::from_micros(mark.lease_until_us), mark.starts)) {
            Some((until, _)) if until > trial.now => Ok(TrialStart::Busy(until)),
            Some((_, starts)) if starts >= STARTS_MAX => Ok(TrialStart::Interrupted),
            _ => Err(StoreError::Conflict("the mark on this suspect was removed in this moment".into())),
        }
    }
}

#[async_trait]
impl TrialStore for PostgresStore {
    async fn begin_trial(&self, trial: &Trial) -> Result<TrialStart, StoreError> {
        let start = sqlx::query!(
            r#"
            WITH settled AS (
                SELECT FROM events WHERE id = $1 AND NOT (status = 'queued' AND generation = $2)
            ),
            marked AS (
                INSERT INTO trials (id, generation, holder, started_at_us, lease_until_us)
                SELECT $1, $2, $3, $4, $5 WHERE NOT EXISTS (SELECT FROM settled)
                ON CONFLICT (id, generation) DO UPDATE
                    SET holder = excluded.holder, started_at_us = excluded.started_at_us,
                        lease_until_us = excluded.lease_until_us,
                        starts = trials.starts + (trials.holder <> excluded.holder)::integer
                    WHERE trials.holder = excluded.holder OR (trials.lease_until_us <= $4 AND trials.starts < $6)
                RETURNING 1
            )
            SELECT EXISTS (SELECT FROM settled) AS "settled!", EXISTS (SELECT FROM marked) AS "marked!"
            "#,
            trial.id.as_uuid(),
            integer(trial.generation),
            trial.holder,
            trial.now.as_micros(),
            trial.lease_until.as_micros(),
            STARTS_MAX,
        )
        .fetch_one(&mut *self.sessions.take().await?)
        .await
        .map_err(|e| store_error(&e))?;
        match start {
            _ if start.settled => Ok(TrialStart::Settled),
            _ if start.marked => Ok(TrialStart::Begun),
            _ => self.mark_of_another(trial).await,
        }
    }

    async fn end_trial(&self, id: EventUuid, generation: u32) -> Result<(), StoreError> {
        sqlx::query!("DELETE FROM trials WHERE id = $1 AND generation = $2", id.as_uuid(), integer(generation))
            .execute(&mut *self.sessions.take().await?)
            .await
            .map(|_| ())
            .map_err(|e| store_error(&e))
    }

    async fn is_recorded(&self, message: &Message) -> Result<bool, StoreError> {
        sqlx::query_scalar!(
            r#"
            SELECT EXISTS (SELECT FROM events WHERE id = $1 AND NOT (status = 'queued' AND generation = $2))
                OR ($2 = 0 AND EXISTS (
                       SELECT FROM events WHERE source = $3 AND event_id IN ($4, $5) AND body_digest = $6
                   )) AS "recorded!"
            "#,
            message.id.as_uuid(),
            integer(message.generation),
            message.source.as_str(),
            message.event_id,
            variant_event_id(&message.event_id, &message.digest),
            &message.digest.as_bytes()[..],
        )
        .fetch_one(&mut *self.sessions.take().await?)
        .await
        .map_err(|e| store_error(&e))
    }
}
