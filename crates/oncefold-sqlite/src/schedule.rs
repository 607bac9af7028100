use crate::SqliteBackend;
use crate::error::{damaged, store_error};
use crate::rows::array;
use async_trait::async_trait;
use bytes::Bytes;
use oncefold_core::id::{Digest, EventUuid, SourceName};
use oncefold_core::message::{FactsJson, Message};
use oncefold_core::reason::Reason;
use oncefold_core::store::{BODY_MISSING, ClaimDue, ScheduleStore, StoreError};
use oncefold_core::time::Timestamp;
use sqlx::SqliteConnection;

#[async_trait]
impl ScheduleStore for SqliteBackend {
    async fn claim_due(&self, claim: ClaimDue) -> Result<Vec<Message>, StoreError> {
        self.writer.run(claim, |conn, claim| Box::pin(claim_due(conn, *claim))).await
    }

    async fn extend_leases(&self, sent: &[(EventUuid, u32)], lease_until: Timestamp) -> Result<(), StoreError> {
        if sent.is_empty() {
            return Ok(());
        }
        let sent = array(sent.iter().map(|(id, generation)| (hex::encode(id.as_bytes()), *generation)));
        self.writer.run((sent, lease_until), |conn, (sent, until)| Box::pin(extend(conn, sent, *until))).await
    }
}

/// A claimed event with its body.
struct Row {
    id: Vec<u8>,
    source: String,
    event_id: String,
    event_type: Option<String>,
    received_at_us: i64,
    generation: i64,
    attempts: i64,
    body_digest: Vec<u8>,
    facts: Option<String>,
    body: Option<Vec<u8>>,
}

/// Looks, then updates exactly those: nobody writes in between.
async fn claim_due(conn: &mut SqliteConnection, claim: ClaimDue) -> Result<Vec<Message>, StoreError> {
    let (now, lease_until, limit) = (claim.now.as_micros(), claim.lease_until.as_micros(), i64::from(claim.limit));
    let rows = sqlx::query_as!(
        Row,
        r#"WITH due AS (
               SELECT id, next_attempt_at_us AS due_us FROM events
               WHERE status = 'retrying' AND next_attempt_at_us <= ?1
               UNION ALL
               SELECT id, lease_until_us FROM events WHERE status = 'queued' AND lease_until_us <= ?1
               ORDER BY 2 LIMIT ?2)
           SELECT e.id, e.source, e.event_id, e.type AS event_type, e.received_at_us,
                  e.generation + (e.status = 'retrying') AS "generation!: i64", e.attempts, e.body_digest,
                  h.facts AS "facts?", h.body AS "body?"
           FROM due CROSS JOIN events e ON e.id = due.id LEFT JOIN held_bodies h ON h.id = due.id
           ORDER BY due.due_us, e.id"#,
        now,
        limit
    )
    .fetch_all(&mut *conn)
    .await
    .map_err(store_error)?;
    if rows.is_empty() {
        return Ok(Vec::new());
    }
    let (whole, broken): (Vec<Row>, Vec<Row>) = rows.into_iter().partition(|row| row.body.is_some());
    if !broken.is_empty() {
        give_up(conn, &broken, claim.now).await?;
    }
    let ids = array(whole.iter().map(|row| hex::encode(&row.id)));
    let updated = sqlx::query!(
        "UPDATE events SET status = 'queued', generation = generation + (status = 'retrying'), lease_until_us = ?2,
                next_attempt_at_us = NULL, reason = NULL, message = NULL
         WHERE id IN (SELECT unhex(value) FROM json_each(?1)) AND status IN ('retrying', 'queued')",
        ids,
        lease_until
    )
    .execute(conn)
    .await
    .map_err(store_error)?;
    if updated.rows_affected() != whole.len() as u64 {
        return Err(StoreError::Failed("an event that is due was not claimed".to_owned()));
    }
    whole.into_iter().map(message).collect()
}

/// Events whose bytes are gone are dead: sent without them they could be nothing else.
async fn give_up(conn: &mut SqliteConnection, events: &[Row], now: Timestamp) -> Result<(), StoreError> {
    let (ids, now) = (array(events.iter().map(|row| hex::encode(&row.id))), now.as_micros());
    let reason = Reason::ApplyFailed.as_str();
    sqlx::query!(
        "UPDATE events SET status = 'dead', dead_at_us = ?2, lease_until_us = NULL, next_attempt_at_us = NULL,
                reason = ?3, message = ?4
         WHERE id IN (SELECT unhex(value) FROM json_each(?1))",
        ids,
        now,
        reason,
        BODY_MISSING
    )
    .execute(conn)
    .await
    .map(|_| ())
    .map_err(store_error)
}

async fn extend(conn: &mut SqliteConnection, sent: &str, lease_until: Timestamp) -> Result<(), StoreError> {
    let lease_until = lease_until.as_micros();
    sqlx::query!(
        "UPDATE events SET lease_until_us = max(lease_until_us, ?2)
         FROM (SELECT unhex(value ->> 0) AS id, value ->> 1 AS generation FROM jsonb_each(?1)) AS sent
         WHERE events.id = sent.id AND events.generation = sent.generation AND events.status = 'queued'",
        sent,
        lease_until
    )
    .execute(conn)
    .await
    .map(|_| ())
    .map_err(store_error)
}

fn message(row: Row) -> Result<Message, StoreError> {
    Ok(Message {
        id: EventUuid::from_bytes(row.id.try_into().map_err(|_| damaged("an event id"))?),
        source: SourceName::parse(&row.source).map_err(|_| damaged("a source name"))?,
        event_id: row.event_id,
        event_type: row.event_type,
        received_at: Timestamp::from_micros(row.received_at_us),
        generation: u32::try_from(row.generation).map_err(|_| damaged("a generation"))?,
        attempts: u32::try_from(row.attempts).map_err(|_| damaged("a count"))?,
        digest: Digest::try_from(&row.body_digest[..]).map_err(|_| damaged("a digest"))?,
        facts: FactsJson::from_text(row.facts.unwrap_or_default()),
        body: Bytes::from(row.body.unwrap_or_default()),
    })
}
