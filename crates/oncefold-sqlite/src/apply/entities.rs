use super::log::{Claim, Event, Log};
use crate::error::{damaged, store_error};
use crate::rows::{Rows, array};
use oncefold_core::change::{Change, Verdict};
use oncefold_core::fold::{Held, fold, judge};
use oncefold_core::id::Digest;
use oncefold_core::order_key::OrderKey;
use oncefold_core::prepare::Plan;
use oncefold_core::store::{ApplyBatch, StoreError};
use oncefold_core::time::Timestamp;
use sqlx::SqliteConnection;

/// A change of the batch, whose it is, and what becomes of it.
struct Judged<'a> {
    item: usize,
    event: &'a Event,
    ordinal: usize,
    change: &'a Change,
    verdict: Verdict,
}

/// Folds the changes of applied items, writes what wins, keeps every change. The verdicts are given by item.
pub(super) async fn write(
    conn: &mut SqliteConnection,
    batch: &ApplyBatch,
    log: &Log,
    claims: &[Claim],
) -> Result<Vec<Vec<Verdict>>, StoreError> {
    let mut verdicts: Vec<Vec<Verdict>> = claims.iter().map(|_| Vec::new()).collect();
    let mut judged: Vec<Judged<'_>> = Vec::new();
    for (item, claim) in claims.iter().enumerate() {
        let (Some(at), Plan::Apply(changes)) = (claim.applied, &batch.items[item].prepared.plan) else { continue };
        let event = &log.entries[at].event;
        let all = changes.iter().enumerate();
        judged.extend(all.map(|(ordinal, change)| Judged { item, event, ordinal, change, verdict: Verdict::Applied }));
    }
    if judged.is_empty() {
        return Ok(verdicts);
    }
    let changes: Vec<&Change> = judged.iter().map(|judged| judged.change).collect();
    let folded = fold(&changes);
    let held = held(conn, folded.winners.iter().map(|at| changes[*at])).await?;
    let mut higher = Vec::new();
    for (at, held) in folded.winners.iter().zip(&held) {
        let winner = &mut judged[*at];
        winner.verdict = judge(winner.change, held.as_ref());
        if held.as_ref().is_none_or(|held| held.order_key < winner.change.order_key) {
            higher.push(*at);
        }
    }
    for (judged, lost) in judged.iter_mut().zip(folded.lost) {
        judged.verdict = lost.unwrap_or(judged.verdict);
        verdicts[judged.item].push(judged.verdict);
    }
    upsert(conn, higher.iter().map(|at| &judged[*at]), batch.now).await?;
    keep(conn, &judged, batch.now).await?;
    Ok(verdicts)
}

/// What the entities of these changes hold, in their order.
async fn held(
    conn: &mut SqliteConnection,
    winners: impl Iterator<Item = &Change>,
) -> Result<Vec<Option<Held>>, StoreError> {
    let names: Vec<(&str, &str)> = winners.map(|change| (change.entity.as_str(), change.key.as_str())).collect();
    let mut held: Vec<Option<Held>> = names.iter().map(|_| None).collect();
    let names = array(names);
    let rows = sqlx::query!(
        r#"SELECT CAST(j.key AS INTEGER) AS "at!: i64", e.order_key, e.state_digest, e.deleted
           FROM jsonb_each(?) j CROSS JOIN entities e ON e.entity = j.value ->> 0 AND e.key = j.value ->> 1"#,
        names
    )
    .fetch_all(conn)
    .await
    .map_err(store_error)?;
    for row in rows {
        let place = usize::try_from(row.at).ok().and_then(|at| held.get_mut(at));
        *place.ok_or_else(|| damaged("a position"))? = Some(Held {
            order_key: OrderKey::from_bytes(row.order_key),
            state_digest: Digest::try_from(&row.state_digest[..]).map_err(|_| damaged("a digest"))?,
            deleted: row.deleted != 0,
        });
    }
    Ok(held)
}

async fn upsert<'a>(
    conn: &mut SqliteConnection,
    winners: impl Iterator<Item = &'a Judged<'a>> + Clone,
    now: Timestamp,
) -> Result<(), StoreError> {
    let mut rows = Rows::with_capacity(64, 4096);
    for Judged { event, change, .. } in winners.clone() {
        rows.put(event.id.as_bytes());
        rows.put(change.state_digest.as_bytes());
    }
    for Judged { change, .. } in winners {
        let (order_key, state) = (change.order_key.as_bytes(), change.state.as_deref());
        let (order_key_at, state_at) = (rows.put(order_key), rows.put(state.unwrap_or_default().as_bytes()));
        rows.push(&(
            change.entity.as_str(),
            &change.key,
            &change.version,
            change.is_delete(),
            (order_key_at, order_key.len(), state_at, state.map(str::len)),
        ));
    }
    if rows.is_empty() {
        return Ok(());
    }
    let expected = rows.len();
    let ((json, blob), now) = (rows.finish(), now.as_micros());
    let written = sqlx::query!(
        "INSERT INTO entities (entity, key, version, deleted, event, state_digest, order_key, state, updated_at_us)
         SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, substr(?2, key * 48 + 1, 16),
                substr(?2, key * 48 + 17, 32), substr(?2, value ->> '$[4][0]', value ->> '$[4][1]'),
                CAST(substr(?2, value ->> '$[4][2]', value ->> '$[4][3]') AS TEXT), ?3
         FROM jsonb_each(?1) WHERE true
         ON CONFLICT (entity, key) DO UPDATE
         SET version = excluded.version, deleted = excluded.deleted, event = excluded.event,
             state_digest = excluded.state_digest, order_key = excluded.order_key, state = excluded.state,
             updated_at_us = excluded.updated_at_us
         WHERE entities.order_key < excluded.order_key",
        json,
        blob,
        now
    )
    .execute(conn)
    .await
    .map_err(store_error)?;
    if written.rows_affected() == expected {
        Ok(())
    } else {
        Err(StoreError::Failed("an entity of the batch was not written".to_owned()))
    }
}

/// Keeps every change with its verdict.
async fn keep(conn: &mut SqliteConnection, judged: &[Judged<'_>], now: Timestamp) -> Result<(), StoreError> {
    let mut rows = Rows::with_capacity(judged.len(), judged.len() * 100);
    for Judged { event, .. } in judged {
        rows.put(event.id.as_bytes());
    }
    for Judged { event, ordinal, change, verdict, .. } in judged {
        let order_key = change.order_key.as_bytes();
        let at = (rows.put(order_key), order_key.len());
        let names = (event.source.as_str(), change.entity.as_str(), &change.key, &change.version);
        rows.push(&(at.0, at.1, event.generation, ordinal, names.0, names.1, names.2, names.3, verdict.as_str()));
    }
    let ((json, blob), now) = (rows.finish(), now.as_micros());
    sqlx::query!(
        "INSERT INTO changes (event, at_us, generation, ordinal, source, entity, key, version, verdict, order_key)
         SELECT substr(?2, key * 16 + 1, 16), ?3, value ->> 2, value ->> 3, value ->> 4, value ->> 5, value ->> 6,
                value ->> 7, value ->> 8, substr(?2, value ->> 0, value ->> 1)
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
