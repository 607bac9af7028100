use super::log::{Entry, Event, Log};
use crate::error::store_error;
use crate::rows::{Rows, array};
use oncefold_core::store::StoreError;
use oncefold_core::time::Timestamp;
use sqlx::SqliteConnection;

/// Id and digest of an event, in the blob; the statements say it in figures.
const IDS_BYTES: usize = 16 + 32;

/// Inserts new events, and brings known ones up to date.
pub(super) async fn events(conn: &mut SqliteConnection, log: &Log) -> Result<(), StoreError> {
    let (new, known): (Vec<&Entry>, Vec<&Entry>) =
        log.entries.iter().filter(|entry| entry.changed).partition(|entry| entry.new.is_some());
    let (smooth, others): (Vec<&Entry>, Vec<&Entry>) = new.into_iter().partition(|entry| is_smooth(entry));
    if !smooth.is_empty() {
        insert_smooth(conn, &smooth, log.now).await?;
    }
    if !others.is_empty() {
        insert(conn, &others).await?;
    }
    if !known.is_empty() {
        update(conn, &known).await?;
    }
    Ok(())
}

/// It came once and was settled at the first try, as nearly all are: then most columns are known.
fn is_smooth(Entry { event, settles, .. }: &Entry) -> bool {
    *settles && !event.has_failed && (event.generation, event.deliveries, event.attempts) == (0, 1, 1)
}

async fn insert_smooth(conn: &mut SqliteConnection, entries: &[&Entry], now: Timestamp) -> Result<(), StoreError> {
    let mut rows = Rows::with_capacity(entries.len(), entries.len() * IDS_BYTES);
    for Entry { event, .. } in entries {
        put_ids(&mut rows, event);
        rows.push(&(
            &event.event_type,
            event.status.as_str(),
            event.source.as_str(),
            &event.event_id,
            event.received_at.as_micros(),
        ));
    }
    let ((json, blob), now) = (rows.finish(), now.as_micros());
    sqlx::query!(
        "INSERT INTO events (id, body_digest, type, status, source, event_id, received_at_us, settled_at_us,
                             stored_at_us, generation, deliveries, attempts)
         SELECT substr(?2, key * 48 + 1, 16), substr(?2, key * 48 + 17, 32), value ->> 0, value ->> 1, value ->> 2,
                value ->> 3, value ->> 4, ?3, ?3, 0, 1, 1
         FROM jsonb_each(?1)",
        json,
        blob,
        now
    )
    .execute(conn)
    .await
    .map(|_| ())
    .map_err(store_error)
}

/// What the statements find by the row's place.
fn put_ids(rows: &mut Rows, event: &Event) {
    rows.put(event.id.as_bytes());
    rows.put(event.digest.as_bytes());
}

fn rows_of(entries: &[&Entry]) -> Rows {
    let mut rows = Rows::with_capacity(entries.len(), entries.len() * IDS_BYTES);
    for Entry { event, .. } in entries {
        put_ids(&mut rows, event);
        let (reason, message) = event.failure.as_ref().map(|(reason, message)| (reason, message)).unzip();
        rows.push(&(
            (&event.event_type, event.status.as_str(), event.generation, event.deliveries, event.attempts),
            (micros(event.next_attempt_at), micros(event.lease_until), micros(event.settled_at)),
            (micros(event.dead_at), reason, message, micros(event.stored_at)),
            (event.source.as_str(), &event.event_id, event.received_at.as_micros()),
        ));
    }
    rows
}

async fn insert(conn: &mut SqliteConnection, entries: &[&Entry]) -> Result<(), StoreError> {
    let (json, blob) = rows_of(entries).finish();
    sqlx::query!(
        "INSERT INTO events (id, body_digest, type, status, generation, deliveries, attempts, next_attempt_at_us,
                             lease_until_us, settled_at_us, dead_at_us, reason, message, stored_at_us, source,
                             event_id, received_at_us)
         SELECT substr(?2, key * 48 + 1, 16), substr(?2, key * 48 + 17, 32), value ->> '$[0][0]', value ->> '$[0][1]',
                value ->> '$[0][2]', value ->> '$[0][3]', value ->> '$[0][4]', value ->> '$[1][0]',
                value ->> '$[1][1]', value ->> '$[1][2]', value ->> '$[2][0]', value ->> '$[2][1]',
                value ->> '$[2][2]', value ->> '$[2][3]', value ->> '$[3][0]', value ->> '$[3][1]',
                value ->> '$[3][2]'
         FROM jsonb_each(?1)",
        json,
        blob
    )
    .execute(conn)
    .await
    .map(|_| ())
    .map_err(store_error)
}

async fn update(conn: &mut SqliteConnection, entries: &[&Entry]) -> Result<(), StoreError> {
    let rows = rows_of(entries);
    let expected = rows.len();
    let (json, blob) = rows.finish();
    let updated = sqlx::query!(
        "UPDATE events SET type = j.type, status = j.status, generation = j.generation, deliveries = j.deliveries,
                attempts = j.attempts, next_attempt_at_us = j.next_attempt_at_us, lease_until_us = j.lease_until_us,
                settled_at_us = j.settled_at_us, dead_at_us = j.dead_at_us, reason = j.reason, message = j.message,
                stored_at_us = j.stored_at_us
         FROM (SELECT substr(?2, key * 48 + 1, 16) AS id, value ->> '$[0][0]' AS type, value ->> '$[0][1]' AS status,
                      value ->> '$[0][2]' AS generation, value ->> '$[0][3]' AS deliveries,
                      value ->> '$[0][4]' AS attempts, value ->> '$[1][0]' AS next_attempt_at_us,
                      value ->> '$[1][1]' AS lease_until_us, value ->> '$[1][2]' AS settled_at_us,
                      value ->> '$[2][0]' AS dead_at_us, value ->> '$[2][1]' AS reason,
                      value ->> '$[2][2]' AS message, value ->> '$[2][3]' AS stored_at_us
               FROM jsonb_each(?1)) AS j
         WHERE events.id = j.id",
        json,
        blob
    )
    .execute(conn)
    .await
    .map_err(store_error)?;
    if updated.rows_affected() == expected {
        Ok(())
    } else {
        Err(StoreError::Failed("an event of the batch was not written".to_owned()))
    }
}

/// Keeps the bodies of new events, and moves those of events that settle to the settled ones.
pub(super) async fn bodies(conn: &mut SqliteConnection, log: &Log) -> Result<(), StoreError> {
    let (mut settled, mut held) = (body_rows(log, true), body_rows(log, false));
    if !settled.is_empty() {
        let (json, blob) = std::mem::replace(&mut settled, Rows::with_capacity(0, 0)).finish();
        let now = log.now.as_micros();
        sqlx::query!(
            "INSERT INTO bodies (id, stored_at_us, facts, body)
             SELECT substr(?2, key * 16 + 1, 16), ?3, CAST(substr(?2, value ->> 0, value ->> 1) AS TEXT),
                    substr(?2, value ->> 2, value ->> 3)
             FROM jsonb_each(?1)",
            json,
            blob,
            now
        )
        .execute(&mut *conn)
        .await
        .map_err(store_error)?;
    }
    if !held.is_empty() {
        let (json, blob) = std::mem::replace(&mut held, Rows::with_capacity(0, 0)).finish();
        sqlx::query!(
            "INSERT INTO held_bodies (id, facts, body)
             SELECT substr(?2, key * 16 + 1, 16), CAST(substr(?2, value ->> 0, value ->> 1) AS TEXT),
                    substr(?2, value ->> 2, value ->> 3)
             FROM jsonb_each(?1)",
            json,
            blob
        )
        .execute(&mut *conn)
        .await
        .map_err(store_error)?;
    }
    let settling = log.entries.iter().filter(|entry| entry.settles && entry.new.is_none());
    let ids: Vec<String> = settling.map(|entry| hex::encode(entry.event.id.as_bytes())).collect();
    if ids.is_empty() { Ok(()) } else { release(conn, &ids, log.now).await }
}

fn body_rows(log: &Log, settled: bool) -> Rows {
    let new = || {
        let ours = log.entries.iter().filter(|entry| entry.settles == settled);
        ours.filter_map(|entry| entry.new.as_ref())
    };
    let bytes = new().map(|message| 16 + message.facts.as_str().len() + message.body.len()).sum();
    let mut rows = Rows::with_capacity(new().count(), bytes);
    for message in new() {
        rows.put(message.id.as_bytes());
    }
    for message in new() {
        let (facts, body) = (message.facts.as_str(), &message.body);
        let (facts_at, body_at) = (rows.put(facts.as_bytes()), rows.put(body));
        rows.push(&(facts_at, facts.len(), body_at, body.len()));
    }
    rows
}

/// Moves held bodies of events that settle to the settled ones.
pub(crate) async fn release(conn: &mut SqliteConnection, ids: &[String], now: Timestamp) -> Result<(), StoreError> {
    let (ids, now) = (array(ids), now.as_micros());
    sqlx::query!(
        "INSERT INTO bodies (id, stored_at_us, facts, body)
         SELECT id, ?2, facts, body FROM held_bodies WHERE id IN (SELECT unhex(value) FROM json_each(?1))",
        ids,
        now
    )
    .execute(&mut *conn)
    .await
    .map_err(store_error)?;
    sqlx::query!("DELETE FROM held_bodies WHERE id IN (SELECT unhex(value) FROM json_each(?))", ids)
        .execute(conn)
        .await
        .map(|_| ())
        .map_err(store_error)
}

/// Keeps verdicts that were not "applied at the first try".
pub(super) async fn attempts(conn: &mut SqliteConnection, log: &Log) -> Result<(), StoreError> {
    if log.attempts.is_empty() {
        return Ok(());
    }
    let rows = array(log.attempts.iter().map(|attempt| {
        let failure = attempt.failure.as_ref();
        let (reason, message) = failure.map(|(reason, message)| (reason, message)).unzip();
        let event = hex::encode(attempt.event.as_bytes());
        (event, attempt.attempt, attempt.generation, attempt.status.as_str(), reason, message)
    }));
    let now = log.now.as_micros();
    sqlx::query!(
        "INSERT INTO attempts (event, attempt, at_us, generation, status, reason, message)
         SELECT unhex(value ->> 0), value ->> 1, ?2, value ->> 2, value ->> 3, value ->> 4, value ->> 5
         FROM jsonb_each(?1)",
        rows,
        now
    )
    .execute(conn)
    .await
    .map(|_| ())
    .map_err(store_error)
}

fn micros(at: Option<Timestamp>) -> Option<i64> {
    at.map(Timestamp::as_micros)
}
