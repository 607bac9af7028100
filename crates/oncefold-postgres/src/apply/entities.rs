//! The guard: entities move only to a higher order key.

use crate::convert::digest;
use crate::error::store_error;
use oncefold_core::change::{Change, Verdict};
use oncefold_core::fold::{self, Held};
use oncefold_core::id::EventUuid;
use oncefold_core::order_key::OrderKey;
use oncefold_core::store::StoreError;
use oncefold_core::time::Timestamp;
use sqlx::PgConnection;
use std::collections::HashMap;

/// A change and the event it came with.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sourced<'a> {
    pub change: &'a Change,
    pub event: EventUuid,
}

/// Folds the changes, writes the winners, and gives a verdict for each change.
pub(super) async fn fold_in(
    connection: &mut PgConnection,
    changes: &[Sourced<'_>],
    now: Timestamp,
) -> Result<Vec<Verdict>, StoreError> {
    let refs: Vec<&Change> = changes.iter().map(|sourced| sourced.change).collect();
    let folded = fold::fold(&refs);
    let mut verdicts = folded.lost;
    let mut open = folded.winners;
    // A winner whose entity another transaction created in this very moment is neither found nor inserted. The next
    // round sees it: entities are never deleted, so this ends.
    while !open.is_empty() {
        let winners: Vec<Sourced<'_>> = open.iter().map(|at| changes[*at]).collect();
        let written = write(connection, &winners, now).await?;
        let mut again = vec![];
        for (at, before) in open.into_iter().zip(written) {
            match before {
                Before::Nothing => verdicts[at] = Some(fold::judge(refs[at], None)),
                Before::Held(held) => verdicts[at] = Some(fold::judge(refs[at], Some(&held))),
                Before::Unseen => again.push(at),
            }
        }
        open = again;
    }
    verdicts.into_iter().collect::<Option<Vec<_>>>().ok_or_else(|| StoreError::Failed("a change got no verdict".into()))
}

/// What an entity held before a winner came.
enum Before {
    Nothing,
    Held(Held),
    Unseen,
}

fn column<'a, T>(winners: &[Sourced<'a>], value: impl Fn(&'a Change) -> T) -> Vec<T> {
    winners.iter().map(|sourced| value(sourced.change)).collect()
}

/// One statement: locks the entities that are there, in key order; inserts those that are not; moves those whose order
/// key is lower. Answers in the order of the winners.
///
/// The input is joined to `entities` alone, once, and what was found carries it along: a prepared statement is planned
/// for ten rows of input, and a join of one list with another would then compare each with each.
async fn write(
    connection: &mut PgConnection,
    winners: &[Sourced<'_>],
    now: Timestamp,
) -> Result<Vec<Before>, StoreError> {
    let rows = sqlx::query!(
        r#"
        WITH new AS MATERIALIZED (
            SELECT * FROM UNNEST($1::text[], $2::text[], $3::bytea[], $4::text[], $5::bytea[], $6::text[], $7::uuid[])
            WITH ORDINALITY AS new (entity, key, order_key, state, state_digest, version, event, position)
        ),
        old AS MATERIALIZED (
            SELECT e.order_key AS old_order_key, e.state_digest AS old_state_digest, e.deleted AS old_deleted, new.*
            FROM new JOIN entities e ON e.entity = new.entity AND e.key = new.key
            ORDER BY e.entity, e.key
            FOR UPDATE OF e
        ),
        inserted AS (
            INSERT INTO entities (entity, key, order_key, state, state_digest, version, deleted, event, updated_at_us)
            SELECT entity, key, order_key, state::jsonb, state_digest, version, state IS NULL, event, $8
            FROM new
            WHERE position NOT IN (SELECT position FROM old)
            ORDER BY entity COLLATE "C", key COLLATE "C"
            ON CONFLICT (entity, key) DO NOTHING
            RETURNING entity, key
        ),
        moved AS (
            UPDATE entities SET
                order_key = old.order_key, state = old.state::jsonb, state_digest = old.state_digest,
                version = old.version, deleted = old.state IS NULL, event = old.event, updated_at_us = $8
            FROM old
            WHERE entities.entity = old.entity AND entities.key = old.key AND entities.order_key < old.order_key
        )
        SELECT entity AS "entity!", key AS "key!", old_order_key AS "order_key?", old_state_digest AS "state_digest?",
               old_deleted AS "deleted?"
        FROM old
        UNION ALL
        SELECT entity, key, NULL, NULL, NULL FROM inserted
        "#,
        &column(winners, |c| c.entity.as_str()) as &[&str],
        &column(winners, |c| c.key.as_str()) as &[&str],
        &column(winners, |c| c.order_key.as_bytes()) as &[&[u8]],
        &column(winners, |c| c.state.as_deref()) as &[Option<&str>],
        &column(winners, |c| &c.state_digest.as_bytes()[..]) as &[&[u8]],
        &column(winners, |c| c.version.as_str()) as &[&str],
        &winners.iter().map(|sourced| sourced.event.as_uuid()).collect::<Vec<_>>(),
        now.as_micros(),
    )
    .fetch_all(connection)
    .await
    .map_err(|e| store_error(&e))?;
    let mut before = HashMap::with_capacity(rows.len());
    for row in rows {
        let held = match (row.order_key, row.state_digest, row.deleted) {
            (Some(order_key), Some(state_digest), Some(deleted)) => Before::Held(Held {
                order_key: OrderKey::from_bytes(order_key),
                state_digest: digest(&state_digest)?,
                deleted,
            }),
            _ => Before::Nothing,
        };
        before.insert((row.entity, row.key), held);
    }
    let of = |winner: &Sourced<'_>| {
        let name = (winner.change.entity.to_string(), winner.change.key.clone());
        before.remove(&name).unwrap_or(Before::Unseen)
    };
    Ok(winners.iter().map(of).collect())
}
