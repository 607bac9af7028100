//! What the retry scheduler takes.

use crate::PostgresStore;
use crate::convert::{digest, integer, small, source};
use crate::error::store_error;
use async_trait::async_trait;
use oncefold_core::id::EventUuid;
use oncefold_core::message::{FactsJson, Message};
use oncefold_core::reason::Reason;
use oncefold_core::store::{BODY_MISSING, ClaimDue, ScheduleStore, StoreError};
use oncefold_core::time::Timestamp;
use uuid::Uuid;

#[async_trait]
impl ScheduleStore for PostgresStore {
    async fn claim_due(&self, claim: ClaimDue) -> Result<Vec<Message>, StoreError> {
        let due = sqlx::query!(
            r#"
            WITH retrying AS (
                SELECT id, next_attempt_at_us AS due_us FROM events
                WHERE status = 'retrying' AND next_attempt_at_us <= $1
                ORDER BY next_attempt_at_us LIMIT $3 FOR UPDATE SKIP LOCKED
            ),
            stranded AS (
                SELECT id, lease_until_us AS due_us FROM events
                WHERE status = 'queued' AND lease_until_us <= $1
                ORDER BY lease_until_us LIMIT $3 FOR UPDATE SKIP LOCKED
            ),
            due AS (
                SELECT id, due_us FROM (SELECT * FROM retrying UNION ALL SELECT * FROM stranded) AS either
                ORDER BY due_us, id LIMIT $3
            ),
            whole AS (SELECT due.* FROM due WHERE EXISTS (SELECT FROM held_bodies WHERE held_bodies.id = due.id)),
            broken AS (
                UPDATE events SET status = 'dead', dead_at_us = $1, lease_until_us = NULL, next_attempt_at_us = NULL,
                                  reason = $4, message = $5
                FROM due WHERE events.id = due.id AND due.id NOT IN (SELECT id FROM whole)
            ),
            taken AS (
                UPDATE events SET status = 'queued', generation = generation + (status = 'retrying')::integer,
                                  lease_until_us = $2, next_attempt_at_us = NULL, reason = NULL, message = NULL
                FROM whole WHERE events.id = whole.id
                RETURNING events.*, whole.due_us
            )
            SELECT taken.id, source, event_id, type AS event_type, received_at_us, generation, attempts, body_digest,
                   facts, body
            FROM taken JOIN held_bodies ON held_bodies.id = taken.id
            ORDER BY due_us, taken.id
            "#,
            claim.now.as_micros(),
            claim.lease_until.as_micros(),
            i64::from(claim.limit),
            Reason::ApplyFailed.as_str(),
            BODY_MISSING,
        )
        .fetch_all(&mut *self.sessions.take().await?)
        .await
        .map_err(|e| store_error(&e))?;
        let messages = due.into_iter().map(|row| {
            Ok(Message {
                id: row.id.into(),
                source: source(&row.source)?,
                event_id: row.event_id,
                event_type: row.event_type,
                received_at: Timestamp::from_micros(row.received_at_us),
                generation: small(row.generation),
                attempts: small(row.attempts),
                digest: digest(&row.body_digest)?,
                facts: FactsJson::from_text(row.facts),
                body: row.body.into(),
            })
        });
        messages.collect()
    }

    async fn extend_leases(&self, sent: &[(EventUuid, u32)], lease_until: Timestamp) -> Result<(), StoreError> {
        let ids: Vec<Uuid> = sent.iter().map(|(id, _)| id.as_uuid()).collect();
        let generations: Vec<i32> = sent.iter().map(|(_, generation)| integer(*generation)).collect();
        sqlx::query!(
            "WITH sent AS (
                 SELECT events.id FROM events
                 JOIN UNNEST($1::uuid[], $2::int[]) AS sent (id, generation)
                      ON sent.id = events.id AND sent.generation = events.generation
                 WHERE status = 'queued'
                 ORDER BY events.id FOR UPDATE OF events
             )
             UPDATE events SET lease_until_us = GREATEST(lease_until_us, $3) FROM sent
             WHERE events.id = sent.id AND events.status = 'queued'",
            &ids,
            &generations,
            lease_until.as_micros(),
        )
        .execute(&mut *self.sessions.take().await?)
        .await
        .map(|_| ())
        .map_err(|e| store_error(&e))
    }
}
