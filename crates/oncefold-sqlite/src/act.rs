use crate::SqliteBackend;
use crate::error::{damaged, store_error};
use async_trait::async_trait;
use oncefold_core::event::EventStatus;
use oncefold_core::id::EventUuid;
use oncefold_core::limits::IDEMPOTENT_ANSWER_MAX;
use oncefold_core::store::{ActStore, Actor, Answer, Discard, Idempotency, Refusal, Replay, StoreError, audit_text};
use oncefold_core::time::Timestamp;
use sqlx::SqliteConnection;

#[async_trait]
impl ActStore for SqliteBackend {
    async fn replay(&self, replay: &Replay) -> Result<Result<(), Refusal>, StoreError> {
        self.writer.run(replay.clone(), |conn, request| Box::pin(replay_event(conn, request))).await
    }

    async fn discard(&self, discard: &Discard) -> Result<Result<(), Refusal>, StoreError> {
        self.writer.run(discard.clone(), |conn, request| Box::pin(discard_event(conn, request))).await
    }

    async fn begin_idempotent(&self, request: &Idempotency) -> Result<Answer, StoreError> {
        self.writer.run(request.clone(), |conn, request| Box::pin(begin(conn, request))).await
    }

    async fn finish_idempotent(&self, request: &Idempotency, answer: Option<(u16, String)>) -> Result<(), StoreError> {
        let params = (request.clone(), answer);
        self.writer.run(params, |conn, (request, answer)| Box::pin(finish(conn, request, answer.as_ref()))).await
    }
}

async fn status_of(conn: &mut SqliteConnection, id: EventUuid) -> Result<Option<EventStatus>, StoreError> {
    let id = &id.as_bytes()[..];
    let status = sqlx::query_scalar!("SELECT status FROM events WHERE id = ?", id)
        .fetch_optional(conn)
        .await
        .map_err(store_error)?;
    status.map(|status| EventStatus::parse(&status).ok_or_else(|| damaged("an event status"))).transpose()
}

async fn replay_event(conn: &mut SqliteConnection, request: &Replay) -> Result<Result<(), Refusal>, StoreError> {
    let id = &request.id.as_bytes()[..];
    match status_of(conn, request.id).await? {
        None => return Ok(Err(Refusal::NotFound)),
        Some(status) if !status.takes_replay() => return Ok(Err(Refusal::WrongStatus(status))),
        Some(status) if status.is_settled() => {
            let held = sqlx::query!(
                "INSERT INTO held_bodies (id, facts, body) SELECT id, facts, body FROM bodies WHERE id = ?",
                id
            )
            .execute(&mut *conn)
            .await
            .map_err(store_error)?;
            if held.rows_affected() == 0 {
                return Ok(Err(Refusal::BodyGone));
            }
            sqlx::query!("DELETE FROM bodies WHERE id = ?", id).execute(&mut *conn).await.map_err(store_error)?;
        }
        Some(_) => {}
    }
    let now = request.now.as_micros();
    sqlx::query!(
        "UPDATE events SET status = 'queued', generation = generation + 1, lease_until_us = ?2, settled_at_us = NULL,
                dead_at_us = NULL, stored_at_us = NULL, reason = NULL, message = NULL
         WHERE id = ?1",
        id,
        now
    )
    .execute(&mut *conn)
    .await
    .map_err(store_error)?;
    audit(conn, &Audit { actor: &request.actor, action: "event.replay", event: request.id, now: request.now }, None)
        .await?;
    Ok(Ok(()))
}

async fn discard_event(conn: &mut SqliteConnection, request: &Discard) -> Result<Result<(), Refusal>, StoreError> {
    match status_of(conn, request.id).await? {
        None => return Ok(Err(Refusal::NotFound)),
        Some(status) if !status.takes_discard() => return Ok(Err(Refusal::WrongStatus(status))),
        Some(_) => {}
    }
    let (id, now) = (&request.id.as_bytes()[..], request.now.as_micros());
    sqlx::query!(
        "UPDATE events SET status = 'discarded', dead_at_us = NULL, settled_at_us = ?2, stored_at_us = ?2,
                reason = NULL, message = NULL
         WHERE id = ?1",
        id,
        now
    )
    .execute(&mut *conn)
    .await
    .map_err(store_error)?;
    crate::apply::release(conn, &[hex::encode(id)], request.now).await?;
    let act = Audit { actor: &request.actor, action: "event.discard", event: request.id, now: request.now };
    audit(conn, &act, Some(&request.reason)).await?;
    Ok(Ok(()))
}

struct Audit<'a> {
    actor: &'a Actor,
    action: &'static str,
    event: EventUuid,
    now: Timestamp,
}

async fn audit(conn: &mut SqliteConnection, act: &Audit<'_>, detail: Option<&str>) -> Result<(), StoreError> {
    let (now, target) = (act.now.as_micros(), act.event.to_string());
    let (actor, detail) = (audit_text(&act.actor.0), detail.map(audit_text));
    sqlx::query!(
        "INSERT INTO audit (at_us, actor, action, target, detail) VALUES (?, ?, ?, ?, ?)",
        now,
        actor,
        act.action,
        target,
        detail
    )
    .execute(conn)
    .await
    .map(|_| ())
    .map_err(store_error)
}

async fn begin(conn: &mut SqliteConnection, request: &Idempotency) -> Result<Answer, StoreError> {
    let (now, expired_before) = (request.now.as_micros(), request.expired_before.as_micros());
    let late_since = request.now.minus(IDEMPOTENT_ANSWER_MAX).as_micros();
    let digest = &request.request.as_bytes()[..];
    sqlx::query!("DELETE FROM idempotency WHERE at_us < ?", expired_before)
        .execute(&mut *conn)
        .await
        .map_err(store_error)?;
    let taken = sqlx::query!(
        "INSERT INTO idempotency (actor, key, request, at_us) VALUES (?, ?, ?, ?)
         ON CONFLICT (actor, key) DO UPDATE SET at_us = excluded.at_us
         WHERE status IS NULL AND request = excluded.request AND at_us < ?",
        request.actor.0,
        request.key,
        digest,
        now,
        late_since
    )
    .execute(&mut *conn)
    .await
    .map_err(store_error)?;
    if taken.rows_affected() == 1 {
        return Ok(Answer::Fresh);
    }
    let known = sqlx::query!(
        "SELECT request, status, body FROM idempotency WHERE actor = ? AND key = ?",
        request.actor.0,
        request.key
    )
    .fetch_one(conn)
    .await
    .map_err(store_error)?;
    if known.request != digest {
        return Ok(Answer::Differs);
    }
    match (known.status, known.body) {
        (Some(status), Some(body)) => {
            let status = u16::try_from(status).map_err(|_| damaged("an HTTP status"))?;
            Ok(Answer::Known { status, body })
        }
        _ => Ok(Answer::InProgress),
    }
}

async fn finish(
    conn: &mut SqliteConnection,
    request: &Idempotency,
    answer: Option<&(u16, String)>,
) -> Result<(), StoreError> {
    let digest = &request.request.as_bytes()[..];
    let done = match answer {
        Some((status, body)) => {
            sqlx::query!(
                "UPDATE idempotency SET status = ?, body = ?
                 WHERE actor = ? AND key = ? AND request = ? AND status IS NULL",
                status,
                body,
                request.actor.0,
                request.key,
                digest
            )
            .execute(conn)
            .await
        }
        None => {
            sqlx::query!(
                "DELETE FROM idempotency WHERE actor = ? AND key = ? AND request = ? AND status IS NULL",
                request.actor.0,
                request.key,
                digest
            )
            .execute(conn)
            .await
        }
    };
    done.map(|_| ()).map_err(store_error)
}
