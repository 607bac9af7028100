//! Rows of `events`: claimed by inserting, locked where they are there, written back.

use super::row::Row;
use crate::convert::{count, digest, integer, micros, moment, small, source, status};
use crate::error::store_error;
use crate::rules::RULES_LOCK;
use oncefold_core::id::EventUuid;
use oncefold_core::message::Message;
use oncefold_core::store::{StoreError, variant_event_id};
use oncefold_core::time::Timestamp;
use sqlx::PgConnection;
use std::collections::HashSet;
use uuid::Uuid;

/// Rows by column, as UNNEST takes them.
struct Columns<'a> {
    ids: Vec<Uuid>,
    types: Vec<Option<&'a str>>,
    statuses: Vec<&'static str>,
    generations: Vec<i32>,
    deliveries: Vec<i64>,
    attempts: Vec<i32>,
    next_attempts: Vec<Option<i64>>,
    leases: Vec<Option<i64>>,
    settled: Vec<Option<i64>>,
    dead: Vec<Option<i64>>,
    reasons: Vec<Option<&'a str>>,
    messages: Vec<Option<&'a str>>,
    stored: Vec<Option<i64>>,
}

impl<'a> Columns<'a> {
    fn of(rows: &[&'a Row]) -> Self {
        Self {
            ids: column(rows, |row| row.id.as_uuid()),
            types: sparse(rows, |row| row.event_type.as_deref()),
            statuses: column(rows, |row| row.status.as_str()),
            generations: column(rows, |row| integer(row.generation)),
            deliveries: column(rows, |row| i64::try_from(row.deliveries).unwrap_or(i64::MAX)),
            attempts: column(rows, |row| integer(row.attempts)),
            next_attempts: sparse(rows, |row| micros(row.next_attempt_at)),
            leases: sparse(rows, |row| micros(row.lease_until)),
            settled: sparse(rows, |row| micros(row.settled_at)),
            dead: sparse(rows, |row| micros(row.dead_at)),
            reasons: sparse(rows, |row| row.error.as_ref().map(|(reason, _)| reason.as_str())),
            messages: sparse(rows, |row| row.error.as_ref().map(|(_, message)| message.as_str())),
            stored: sparse(rows, |row| micros(row.stored_at)),
        }
    }
}

fn column<'a, T>(rows: &[&'a Row], value: impl Fn(&'a Row) -> T) -> Vec<T> {
    rows.iter().map(|row| value(row)).collect()
}

/// As [`column`]; nothing where no row has a value: UNNEST fills a shorter list up with nulls.
fn sparse<'a, T>(rows: &[&'a Row], value: impl Fn(&'a Row) -> Option<T>) -> Vec<Option<T>> {
    let values = column(rows, value);
    if values.iter().any(Option::is_some) { values } else { vec![] }
}

/// Which rows were inserted.
pub(super) enum Claimed {
    /// All of them.
    All,
    /// Those of these ids.
    Only(HashSet<EventUuid>),
}

impl Claimed {
    /// Whether the row of this id was inserted.
    pub fn has(&self, id: EventUuid) -> bool {
        match self {
            Self::All => true,
            Self::Only(ids) => ids.contains(&id),
        }
    }
}

/// Inserts the rows whose events are not known, once it holds the rules' version ([`crate::rules`]). What the version is
/// only a later statement can see.
pub(super) async fn claim(connection: &mut PgConnection, rows: &[&Row]) -> Result<Claimed, StoreError> {
    let new = Columns::of(rows);
    let sources = column(rows, |row| row.source.as_str());
    let event_ids = column(rows, |row| row.event_id.as_str());
    let digests = column(rows, |row| &row.digest.as_bytes()[..]);
    let received = column(rows, |row| row.received_at.as_micros());
    let ids = sqlx::query_scalar!(
        r#"
        WITH claimed AS (
            INSERT INTO events (id, source, event_id, type, status, generation, body_digest, received_at_us, deliveries,
                                attempts, next_attempt_at_us, lease_until_us, settled_at_us, dead_at_us, reason, message,
                                stored_at_us)
            SELECT * FROM UNNEST(
                $1::uuid[], $2::text[], $3::text[], $4::text[], $5::text[], $6::int[], $7::bytea[], $8::bigint[],
                $9::bigint[], $10::int[], $11::bigint[], $12::bigint[], $13::bigint[], $14::bigint[], $15::text[],
                $16::text[], $17::bigint[]
            ) AS new (id, source, event_id, type, status, generation, body_digest, received_at_us, deliveries, attempts,
                      next_attempt_at_us, lease_until_us, settled_at_us, dead_at_us, reason, message, stored_at_us)
            WHERE (SELECT pg_advisory_xact_lock_shared($18)) IS NOT NULL
            ORDER BY source COLLATE "C", event_id COLLATE "C"
            ON CONFLICT DO NOTHING
            RETURNING id
        )
        SELECT CASE WHEN count(*) < cardinality($1) THEN coalesce(array_agg(id), '{}') END FROM claimed
        "#,
        &new.ids,
        &sources as &[&str],
        &event_ids as &[&str],
        &new.types as &[Option<&str>],
        &new.statuses as &[&str],
        &new.generations,
        &digests as &[&[u8]],
        &received,
        &new.deliveries,
        &new.attempts,
        &new.next_attempts as &[Option<i64>],
        &new.leases as &[Option<i64>],
        &new.settled as &[Option<i64>],
        &new.dead as &[Option<i64>],
        &new.reasons as &[Option<&str>],
        &new.messages as &[Option<&str>],
        &new.stored as &[Option<i64>],
        RULES_LOCK,
    )
    .fetch_one(connection)
    .await
    .map_err(|e| store_error(&e))?;
    Ok(ids.map_or(Claimed::All, |ids| Claimed::Only(ids.into_iter().map(EventUuid::from).collect())))
}

/// Locks, in the order of their ids, the rows that these messages may be about: by id, by event id, and by the event id
/// a variant would have.
pub(super) async fn lock<'a>(
    connection: &mut PgConnection,
    messages: impl Iterator<Item = &'a Message>,
) -> Result<Vec<Row>, StoreError> {
    let (mut ids, mut sources, mut event_ids) = (vec![], vec![], vec![]);
    for message in messages {
        ids.push(message.id.as_uuid());
        if message.generation == 0 {
            sources.extend([message.source.as_str(); 2]);
            event_ids.push(message.event_id.clone());
            event_ids.push(variant_event_id(&message.event_id, &message.digest));
        }
    }
    let found = sqlx::query!(
        r#"
        SELECT id, source, event_id, type, status, generation, body_digest, received_at_us, deliveries, attempts,
               next_attempt_at_us, lease_until_us, settled_at_us, dead_at_us, reason, message, stored_at_us
        FROM events
        WHERE id IN (
            SELECT UNNEST($1::uuid[])
            UNION
            SELECT known.id
            FROM UNNEST($2::text[], $3::text[]) AS name (source, event_id)
            JOIN events known ON known.source = name.source AND known.event_id = name.event_id
        )
        ORDER BY id
        FOR UPDATE
        "#,
        &ids,
        &sources as &[&str],
        &event_ids,
    )
    .fetch_all(connection)
    .await
    .map_err(|e| store_error(&e))?;
    let rows = found.into_iter().map(|row| {
        Ok(Row {
            id: row.id.into(),
            source: source(&row.source)?,
            event_id: row.event_id,
            event_type: row.r#type,
            status: status(&row.status)?,
            generation: small(row.generation),
            digest: digest(&row.body_digest)?,
            received_at: Timestamp::from_micros(row.received_at_us),
            deliveries: count(row.deliveries),
            attempts: small(row.attempts),
            next_attempt_at: moment(row.next_attempt_at_us),
            lease_until: moment(row.lease_until_us),
            settled_at: moment(row.settled_at_us),
            dead_at: moment(row.dead_at_us),
            error: row.reason.map(|reason| (reason, row.message.unwrap_or_default())),
            stored_at: moment(row.stored_at_us),
        })
    });
    rows.collect()
}

/// Writes rows back that this transaction has locked.
pub(super) async fn update(connection: &mut PgConnection, rows: &[&Row]) -> Result<(), StoreError> {
    let new = Columns::of(rows);
    let updated = sqlx::query!(
        r#"
        UPDATE events SET
            type = new.type, status = new.status, generation = new.generation, deliveries = new.deliveries,
            attempts = new.attempts, next_attempt_at_us = new.next_attempt_at_us, lease_until_us = new.lease_until_us,
            settled_at_us = new.settled_at_us, dead_at_us = new.dead_at_us, reason = new.reason, message = new.message,
            stored_at_us = new.stored_at_us
        FROM UNNEST(
            $1::uuid[], $2::text[], $3::text[], $4::int[], $5::bigint[], $6::int[], $7::bigint[], $8::bigint[],
            $9::bigint[], $10::bigint[], $11::text[], $12::text[], $13::bigint[]
        ) AS new (id, type, status, generation, deliveries, attempts, next_attempt_at_us, lease_until_us, settled_at_us,
                  dead_at_us, reason, message, stored_at_us)
        WHERE events.id = new.id
        "#,
        &new.ids,
        &new.types as &[Option<&str>],
        &new.statuses as &[&str],
        &new.generations,
        &new.deliveries,
        &new.attempts,
        &new.next_attempts as &[Option<i64>],
        &new.leases as &[Option<i64>],
        &new.settled as &[Option<i64>],
        &new.dead as &[Option<i64>],
        &new.reasons as &[Option<&str>],
        &new.messages as &[Option<&str>],
        &new.stored as &[Option<i64>],
    )
    .execute(connection)
    .await
    .map_err(|e| store_error(&e))?;
    if updated.rows_affected() == rows.len() as u64 {
        Ok(())
    } else {
        Err(StoreError::Failed("a locked event is gone".into()))
    }
}
