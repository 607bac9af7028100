//! The guard: entities move only to a higher order key.

use crate::convert::{digest, verdict};
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
    let winners: Vec<Sourced<'_>> = folded.winners.iter().map(|at| changes[*at]).collect();
    for at in &folded.winners {
        verdicts[*at] = Some(Verdict::Applied);
    }
    let others = write(connection, &winners, now).await?;
    if !others.is_empty() {
        let at: HashMap<(&str, &str), usize> =
            folded.winners.iter().map(|at| ((refs[*at].entity.as_str(), refs[*at].key.as_str()), *at)).collect();
        let mut beaten = vec![];
        for Other { entity, key, verdict } in &others {
            let at = at.get(&(entity.as_str(), key.as_str())).ok_or_else(|| no_change(entity))?;
            verdicts[*at] = *verdict;
            if verdict.is_none() {
                beaten.push(*at);
            }
        }
        judge_beaten(connection, &refs, &beaten, &mut verdicts).await?;
    }
    verdicts.into_iter().collect::<Option<Vec<_>>>().ok_or_else(|| StoreError::Failed("a change got no verdict".into()))
}

fn no_change(entity: &str) -> StoreError {
    StoreError::Failed(format!("an answer is about an entity ({entity}) that no change is about"))
}

/// An entity stayed as it was though the change is above what it holds: a trigger kept it so. Such a change was not
/// applied, whatever the fold says.
fn not_moved(entity: &str) -> StoreError {
    StoreError::Failed(format!(
        "an entity ({entity}) did not take a change that is above it: does a trigger refuse it?"
    ))
}

/// A winner that was not simply applied.
struct Other {
    entity: String,
    key: String,
    /// None where the entity stayed as it was.
    verdict: Option<Verdict>,
}

fn column<'a, T>(winners: &[Sourced<'a>], value: impl Fn(&'a Change) -> T) -> Vec<T> {
    winners.iter().map(|sourced| value(sourced.change)).collect()
}

/// One statement, one pass in the order of keys: an entity that is not there is inserted; one that is there is locked,
/// and moved if its order key is lower. The row remembers how the change that moved it was judged, by the rule of
/// [`fold::judge`] (a test compares the two): only while it is being written is it known what it held. Answers those
/// that were not applied; as a rule there are none.
///
/// Two passes, one over those that are there and one over the others, would lock against the order of another
/// transaction, and each would search the index.
async fn write(
    connection: &mut PgConnection,
    winners: &[Sourced<'_>],
    now: Timestamp,
) -> Result<Vec<Other>, StoreError> {
    let rows = sqlx::query!(
        r#"
        WITH written AS (
            INSERT INTO entities AS held (entity, key, order_key, state, state_digest, version, deleted, event,
                                          updated_at_us, verdict)
            SELECT entity, key, order_key, state::jsonb, state_digest, version, state IS NULL, event, $8, 'applied'
            FROM UNNEST($1::text[], $2::text[], $3::bytea[], $4::text[], $5::bytea[], $6::text[], $7::uuid[])
                 AS new (entity, key, order_key, state, state_digest, version, event)
            ORDER BY entity COLLATE "C", key COLLATE "C"
            ON CONFLICT (entity, key) DO UPDATE SET
                order_key = excluded.order_key, state = excluded.state, state_digest = excluded.state_digest,
                version = excluded.version, deleted = excluded.deleted, event = excluded.event,
                updated_at_us = excluded.updated_at_us,
                verdict = CASE
                    WHEN held.state_digest = excluded.state_digest AND held.deleted = excluded.deleted THEN 'noop'
                    WHEN substr(held.order_key, 1, octet_length(held.order_key) - $9)
                         = substr(excluded.order_key, 1, octet_length(excluded.order_key) - $9) THEN 'tie'
                    ELSE 'applied'
                END
            WHERE held.order_key < excluded.order_key
            RETURNING entity, key, verdict
        )
        SELECT entity AS "entity!", key AS "key!", verdict AS "verdict?" FROM written WHERE verdict <> 'applied'
        UNION ALL
        SELECT entity, key, NULL FROM UNNEST($1, $2) AS new (entity, key)
        WHERE (SELECT count(*) FROM written) < cardinality($1)
          AND (entity, key) NOT IN (SELECT entity, key FROM written)
        "#,
        &column(winners, |c| c.entity.as_str()) as &[&str],
        &column(winners, |c| c.key.as_str()) as &[&str],
        &column(winners, |c| c.order_key.as_bytes()) as &[&[u8]],
        &column(winners, |c| c.state.as_deref()) as &[Option<&str>],
        &column(winners, |c| &c.state_digest.as_bytes()[..]) as &[&[u8]],
        &column(winners, |c| c.version.as_str()) as &[&str],
        &winners.iter().map(|sourced| sourced.event.as_uuid()).collect::<Vec<_>>(),
        now.as_micros(),
        OrderKey::BELOW_RANK_BYTES,
    )
    .fetch_all(connection)
    .await
    .map_err(|e| store_error(&e))?;
    let others = rows.into_iter().map(|row| {
        let verdict = row.verdict.as_deref().map(verdict).transpose()?;
        Ok(Other { entity: row.entity, key: row.key, verdict })
    });
    others.collect()
}

/// Judges changes whose entities stayed as they were. [`write`] has locked them, so that this reads what it met.
async fn judge_beaten(
    connection: &mut PgConnection,
    changes: &[&Change],
    beaten: &[usize],
    verdicts: &mut [Option<Verdict>],
) -> Result<(), StoreError> {
    if beaten.is_empty() {
        return Ok(());
    }
    let rows = sqlx::query!(
        r#"
        SELECT new.position AS "position!", held.order_key, held.state_digest, held.deleted
        FROM UNNEST($1::text[], $2::text[], $3::bigint[]) AS new (entity, key, position)
        JOIN entities held ON held.entity = new.entity AND held.key = new.key
        "#,
        &beaten.iter().map(|at| changes[*at].entity.as_str()).collect::<Vec<_>>() as &[&str],
        &beaten.iter().map(|at| changes[*at].key.as_str()).collect::<Vec<_>>() as &[&str],
        &beaten.iter().map(|at| *at as i64).collect::<Vec<_>>(),
    )
    .fetch_all(connection)
    .await
    .map_err(|e| store_error(&e))?;
    for row in rows {
        let held = Held {
            order_key: OrderKey::from_bytes(row.order_key),
            state_digest: digest(&row.state_digest)?,
            deleted: row.deleted,
        };
        if let Some(at) = usize::try_from(row.position).ok().filter(|at| *at < changes.len()) {
            if changes[at].order_key > held.order_key {
                return Err(not_moved(changes[at].entity.as_str()));
            }
            verdicts[at] = Some(fold::judge(changes[at], Some(&held)));
        }
    }
    Ok(())
}
