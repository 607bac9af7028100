//! What people do; each action with its audit row.

use crate::PostgresStore;
use crate::apply::record;
use crate::convert::{micros, moment, status};
use crate::error::store_error;
use async_trait::async_trait;
use oncefold_core::event::EventStatus;
use oncefold_core::id::EventUuid;
use oncefold_core::limits::IDEMPOTENT_ANSWER_MAX;
use oncefold_core::store::{ActStore, Actor, Answer, Discard, Idempotency, Refusal, Replay, StoreError, audit_text};
use oncefold_core::time::Timestamp;
use sqlx::{PgConnection, Postgres, Transaction};

#[async_trait]
impl ActStore for PostgresStore {
    async fn replay(&self, replay: &Replay) -> Result<Result<(), Refusal>, StoreError> {
        let mut session = self.sessions.take().await?;
        let mut transaction = session.begin().await.map_err(|e| store_error(&e))?;
        let before = match locked_status(&mut transaction, replay.id).await? {
            Some((before, stored_at)) if before.takes_replay() => (before, stored_at),
            Some((before, _)) => return refuse(transaction, Refusal::WrongStatus(before)).await,
            None => return refuse(transaction, Refusal::NotFound).await,
        };
        if !hold(&mut transaction, replay.id, before).await.map_err(|e| store_error(&e))? {
            return refuse(transaction, Refusal::BodyGone).await;
        }
        sqlx::query!(
            "UPDATE events SET status = 'queued', generation = generation + 1, lease_until_us = $2, settled_at_us = NULL,
                               dead_at_us = NULL, reason = NULL, message = NULL, stored_at_us = NULL
             WHERE id = $1",
            replay.id.as_uuid(),
            replay.now.as_micros(),
        )
        .execute(&mut *transaction)
        .await
        .map_err(|e| store_error(&e))?;
        let deed = Deed { actor: &replay.actor, action: "event.replay", event: replay.id, detail: None };
        audit(&mut transaction, &deed, replay.now).await.map_err(|e| store_error(&e))?;
        transaction.commit().await.map_err(|e| store_error(&e))?;
        Ok(Ok(()))
    }

    async fn discard(&self, discard: &Discard) -> Result<Result<(), Refusal>, StoreError> {
        let mut session = self.sessions.take().await?;
        let mut transaction = session.begin().await.map_err(|e| store_error(&e))?;
        match locked_status(&mut transaction, discard.id).await? {
            Some((before, _)) if before.takes_discard() => {}
            Some((before, _)) => return refuse(transaction, Refusal::WrongStatus(before)).await,
            None => return refuse(transaction, Refusal::NotFound).await,
        }
        sqlx::query!(
            "UPDATE events SET status = 'discarded', dead_at_us = NULL, settled_at_us = $2, stored_at_us = $2,
                               reason = NULL, message = NULL
             WHERE id = $1",
            discard.id.as_uuid(),
            discard.now.as_micros(),
        )
        .execute(&mut *transaction)
        .await
        .map_err(|e| store_error(&e))?;
        record::release(&mut transaction, &[discard.id], discard.now).await.map_err(|e| store_error(&e))?;
        let (actor, detail) = (&discard.actor, Some(discard.reason.as_str()));
        let deed = Deed { actor, action: "event.discard", event: discard.id, detail };
        audit(&mut transaction, &deed, discard.now).await.map_err(|e| store_error(&e))?;
        transaction.commit().await.map_err(|e| store_error(&e))?;
        Ok(Ok(()))
    }

    async fn begin_idempotent(&self, request: &Idempotency) -> Result<Answer, StoreError> {
        let mut session = self.sessions.take().await?;
        let mut transaction = session.begin().await.map_err(|e| store_error(&e))?;
        sqlx::query!("DELETE FROM idempotency WHERE at_us < $1", request.expired_before.as_micros())
            .execute(&mut *transaction)
            .await
            .map_err(|e| store_error(&e))?;
        let taken = sqlx::query!(
            "INSERT INTO idempotency (actor, key, request, at_us) VALUES ($1, $2, $3, $4)
             ON CONFLICT (actor, key) DO UPDATE SET at_us = excluded.at_us
             WHERE idempotency.status IS NULL AND idempotency.request = excluded.request AND idempotency.at_us < $5",
            request.actor.0,
            request.key,
            &request.request.as_bytes()[..],
            request.now.as_micros(),
            request.now.minus(IDEMPOTENT_ANSWER_MAX).as_micros(),
        )
        .execute(&mut *transaction)
        .await
        .map_err(|e| store_error(&e))?;
        let answer = if taken.rows_affected() == 1 { Answer::Fresh } else { known(&mut transaction, request).await? };
        transaction.commit().await.map_err(|e| store_error(&e))?;
        Ok(answer)
    }

    async fn finish_idempotent(&self, request: &Idempotency, answer: Option<(u16, String)>) -> Result<(), StoreError> {
        let request_digest = &request.request.as_bytes()[..];
        let done = match answer {
            Some((status, body)) => {
                sqlx::query!(
                    "UPDATE idempotency SET status = $4, body = $5
                     WHERE actor = $1 AND key = $2 AND request = $3 AND status IS NULL",
                    request.actor.0,
                    request.key,
                    request_digest,
                    i32::from(status),
                    body,
                )
                .execute(&mut *self.sessions.take().await?)
                .await
            }
            None => {
                sqlx::query!(
                    "DELETE FROM idempotency WHERE actor = $1 AND key = $2 AND request = $3 AND status IS NULL",
                    request.actor.0,
                    request.key,
                    request_digest,
                )
                .execute(&mut *self.sessions.take().await?)
                .await
            }
        };
        done.map(|_| ()).map_err(|e| store_error(&e))
    }
}

/// Ends the transaction here and now: one that is only dropped holds its lock a little longer, and the scheduler would
/// skip the event.
async fn refuse(transaction: Transaction<'_, Postgres>, refusal: Refusal) -> Result<Result<(), Refusal>, StoreError> {
    transaction.rollback().await.map_err(|e| store_error(&e))?;
    Ok(Err(refusal))
}

/// What is known of a key that was taken before.
async fn known(connection: &mut PgConnection, request: &Idempotency) -> Result<Answer, StoreError> {
    let known = sqlx::query!(
        "SELECT request, status, body FROM idempotency WHERE actor = $1 AND key = $2",
        request.actor.0,
        request.key,
    )
    .fetch_optional(connection)
    .await
    .map_err(|e| store_error(&e))?;
    let Some(known) = known else {
        return Err(StoreError::Conflict("an idempotency key was freed in this moment".into()));
    };
    if known.request != request.request.as_bytes() {
        return Ok(Answer::Differs);
    }
    Ok(match known.status.and_then(|status| u16::try_from(status).ok()) {
        Some(status) => Answer::Known { status, body: known.body.unwrap_or_default() },
        None => Answer::InProgress,
    })
}

async fn locked_status(
    connection: &mut PgConnection,
    id: EventUuid,
) -> Result<Option<(EventStatus, Option<Timestamp>)>, StoreError> {
    let row = sqlx::query!("SELECT status, stored_at_us FROM events WHERE id = $1 FOR UPDATE", id.as_uuid())
        .fetch_optional(connection)
        .await
        .map_err(|e| store_error(&e))?;
    row.map(|row| Ok((status(&row.status)?, moment(row.stored_at_us)))).transpose()
}

/// Sees to it that the event's bytes are held until it settles; whether they are.
async fn hold(
    connection: &mut PgConnection,
    id: EventUuid,
    (status, stored_at): (EventStatus, Option<Timestamp>),
) -> sqlx::Result<bool> {
    if !status.is_settled() {
        return Ok(true);
    }
    let held = sqlx::query!(
        "INSERT INTO held_bodies (id, facts, body)
         SELECT id, facts, body FROM bodies WHERE id = $1 AND stored_at_us = $2",
        id.as_uuid(),
        micros(stored_at),
    )
    .execute(connection)
    .await?;
    Ok(held.rows_affected() == 1)
}

/// Who did what to which event.
struct Deed<'a> {
    actor: &'a Actor,
    action: &'static str,
    event: EventUuid,
    detail: Option<&'a str>,
}

async fn audit(connection: &mut PgConnection, deed: &Deed<'_>, now: Timestamp) -> sqlx::Result<()> {
    sqlx::query!(
        "INSERT INTO audit (at_us, actor, action, target, detail) VALUES ($1, $2, $3, $4, $5)",
        now.as_micros(),
        audit_text(&deed.actor.0),
        deed.action,
        deed.event.to_string(),
        deed.detail.map(audit_text),
    )
    .execute(connection)
    .await
    .map(|_| ())
}
