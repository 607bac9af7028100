//! What is kept beside the narrow row: bytes, changes with their verdicts, attempts.

use super::play::{Fresh, Given};
use crate::convert::{integer, uuids};
use oncefold_core::change::{Change, Verdict};
use oncefold_core::event::EventStatus;
use oncefold_core::id::EventUuid;
use oncefold_core::message::Message;
use oncefold_core::store::ApplyBatch;
use oncefold_core::time::Timestamp;
use sqlx::PgConnection;
use uuid::Uuid;

/// A change with its verdict and where it came from.
pub(super) struct Judged<'a> {
    pub message: &'a Message,
    pub ordinal: usize,
    pub change: &'a Change,
    pub verdict: Verdict,
}

/// Keeps every change with its verdict, and the bytes of new events: of settled ones for the day, of others until they
/// settle. Answers the rules' version, which [`super::events::claim`] holds: this is a later statement, so that it sees
/// what a registration has committed for which that one waited.
pub(super) async fn log(
    connection: &mut PgConnection,
    batch: &ApplyBatch,
    judged: &[Judged<'_>],
    fresh: &[Fresh],
) -> sqlx::Result<i64> {
    fn column<'a, T>(judged: &[Judged<'a>], value: impl Fn(&Judged<'a>) -> T) -> Vec<T> {
        judged.iter().map(value).collect()
    }
    let (settled, held): (Vec<&Fresh>, Vec<&Fresh>) = fresh.iter().partition(|f| f.row.status.is_settled());
    if !held.is_empty() {
        hold(connection, batch, &held).await?;
    }
    let (ids, facts, bodies) = columns(batch, &settled);
    sqlx::query_scalar!(
        "WITH bytes AS (
             INSERT INTO bodies (id, stored_at_us, facts, body)
             SELECT id, $1, facts, body FROM UNNEST($2::uuid[], $3::text[], $4::bytea[]) AS new (id, facts, body)
         ), history AS (
             INSERT INTO changes (event, at_us, generation, ordinal, source, entity, key, version, verdict, order_key)
             SELECT event, $1, generation, ordinal, source, entity, key, version, verdict, order_key
             FROM UNNEST($5::uuid[], $6::int[], $7::int[], $8::text[], $9::text[], $10::text[], $11::text[],
                         $12::text[], $13::bytea[])
                  AS new (event, generation, ordinal, source, entity, key, version, verdict, order_key)
         )
         SELECT version FROM rules_version",
        batch.now.as_micros(),
        &ids,
        &facts as &[&str],
        &bodies as &[&[u8]],
        &column(judged, |j| j.message.id.as_uuid()),
        &column(judged, |j| integer(j.message.generation)),
        &column(judged, |j| i32::try_from(j.ordinal).unwrap_or(i32::MAX)),
        &column(judged, |j| j.message.source.as_str()) as &[&str],
        &column(judged, |j| j.change.entity.as_str()) as &[&str],
        &column(judged, |j| j.change.key.as_str()) as &[&str],
        &column(judged, |j| j.change.version.as_str()) as &[&str],
        &column(judged, |j| j.verdict.as_str()) as &[&str],
        &column(judged, |j| j.change.order_key.as_bytes()) as &[&[u8]],
    )
    .fetch_one(connection)
    .await
}

async fn hold(connection: &mut PgConnection, batch: &ApplyBatch, held: &[&Fresh]) -> sqlx::Result<()> {
    let (ids, facts, bodies) = columns(batch, held);
    sqlx::query!(
        "INSERT INTO held_bodies (id, facts, body)
         SELECT id, facts, body FROM UNNEST($1::uuid[], $2::text[], $3::bytea[]) AS new (id, facts, body)",
        &ids,
        &facts as &[&str],
        &bodies as &[&[u8]],
    )
    .execute(connection)
    .await
    .map(|_| ())
}

fn columns<'a>(batch: &'a ApplyBatch, fresh: &[&Fresh]) -> (Vec<Uuid>, Vec<&'a str>, Vec<&'a [u8]>) {
    let message = |f: &&Fresh| &*batch.items[f.item].message;
    (
        fresh.iter().map(|f| f.row.id.as_uuid()).collect(),
        fresh.iter().map(|f| message(f).facts.as_str()).collect(),
        fresh.iter().map(|f| &message(f).body[..]).collect(),
    )
}

/// Moves the bytes of events that have settled to those of the day. A replay within the microsecond finds its own there.
pub(crate) async fn release(connection: &mut PgConnection, ids: &[EventUuid], now: Timestamp) -> sqlx::Result<()> {
    sqlx::query!(
        "WITH released AS (DELETE FROM held_bodies WHERE id = ANY($1) RETURNING id, facts, body)
         INSERT INTO bodies (id, stored_at_us, facts, body) SELECT id, $2, facts, body FROM released
         ON CONFLICT DO NOTHING",
        &uuids(ids),
        now.as_micros(),
    )
    .execute(connection)
    .await
    .map(|_| ())
}

/// Keeps attempts: every failure, and a success where an earlier attempt is kept.
pub(super) async fn attempts(connection: &mut PgConnection, batch: &ApplyBatch, given: &[Given]) -> sqlx::Result<()> {
    let message = |given: &Given| &*batch.items[given.item].message;
    let failed = |given: &Given| matches!(given.status, EventStatus::Retrying | EventStatus::Dead);
    let kept: Vec<&Given> = given.iter().filter(|g| failed(g) || message(g).generation > 0).collect();
    if kept.is_empty() {
        return Ok(());
    }
    let reason = |given: &Given, part: fn(&(String, String)) -> &String| given.error.as_ref().map(part).cloned();
    sqlx::query!(
        "INSERT INTO attempts (event, attempt, at_us, generation, status, reason, message)
         SELECT event, attempt, $7, generation, status, reason, message
         FROM UNNEST($1::uuid[], $2::int[], $3::int[], $4::text[], $5::text[], $6::text[])
              AS new (event, attempt, generation, status, reason, message)
         WHERE reason IS NOT NULL OR EXISTS (SELECT FROM attempts earlier WHERE earlier.event = new.event)",
        &kept.iter().map(|g| message(g).id.as_uuid()).collect::<Vec<_>>(),
        &kept.iter().map(|g| integer(g.attempt)).collect::<Vec<_>>(),
        &kept.iter().map(|g| integer(message(g).generation)).collect::<Vec<_>>(),
        &kept.iter().map(|g| g.status.as_str()).collect::<Vec<_>>() as &[&str],
        &kept.iter().map(|g| reason(g, |e| &e.0)).collect::<Vec<_>>() as &[Option<String>],
        &kept.iter().map(|g| reason(g, |e| &e.1)).collect::<Vec<_>>() as &[Option<String>],
        batch.now.as_micros(),
    )
    .execute(connection)
    .await
    .map(|_| ())
}
