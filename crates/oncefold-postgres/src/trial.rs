//! Marks on suspects that are tried alone.

use crate::PostgresStore;
use crate::convert::integer;
use crate::error::store_error;
use async_trait::async_trait;
use oncefold_core::id::EventUuid;
use oncefold_core::message::Message;
use oncefold_core::store::{StoreError, Trial, TrialStart, TrialStore, variant_event_id};
use oncefold_core::time::Timestamp;

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
                    SET started_at_us = excluded.started_at_us, lease_until_us = excluded.lease_until_us
                    WHERE trials.holder = excluded.holder
                RETURNING 1
            )
            SELECT EXISTS (SELECT FROM settled) AS "settled!", EXISTS (SELECT FROM marked) AS "marked!",
                   (SELECT lease_until_us FROM trials WHERE id = $1 AND generation = $2) AS other_until_us
            "#,
            trial.id.as_uuid(),
            integer(trial.generation),
            trial.holder,
            trial.now.as_micros(),
            trial.lease_until.as_micros(),
        )
        .fetch_one(&self.pool)
        .await
        .map_err(|e| store_error(&e))?;
        match start.other_until_us.map(Timestamp::from_micros) {
            _ if start.settled => Ok(TrialStart::Settled),
            _ if start.marked => Ok(TrialStart::Begun),
            Some(until) if until > trial.now => Ok(TrialStart::Busy(until)),
            Some(_) => Ok(TrialStart::Interrupted),
            None => Err(StoreError::Conflict("another process marked the same suspect in this moment".into())),
        }
    }

    async fn end_trial(&self, id: EventUuid, generation: u32) -> Result<(), StoreError> {
        sqlx::query!("DELETE FROM trials WHERE id = $1 AND generation = $2", id.as_uuid(), integer(generation))
            .execute(&self.pool)
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
        .fetch_one(&self.pool)
        .await
        .map_err(|e| store_error(&e))
    }
}
