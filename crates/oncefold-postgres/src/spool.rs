//! The table that takes deliveries while the broker cannot.

use crate::PostgresStore;
use crate::convert::{count, digest, source};
use crate::error::{store_error, writable};
use async_trait::async_trait;
use oncefold_core::message::{FactsJson, Message};
use oncefold_core::store::{ClaimSpooled, SpoolStore, Spooled, StoreError};
use oncefold_core::time::Timestamp;
use std::sync::Arc;

#[async_trait]
impl SpoolStore for PostgresStore {
    async fn spool(&self, messages: &[Arc<Message>]) -> Result<(), StoreError> {
        fn column<'a, T>(messages: &'a [Arc<Message>], value: impl Fn(&'a Message) -> T) -> Vec<T> {
            messages.iter().map(|message| value(message)).collect()
        }
        let mut session = self.sessions.take().await?;
        let spooled = sqlx::query!(
            "INSERT INTO spool (id, source, event_id, type, received_at_us, body_digest, facts, body)
             SELECT id, source, event_id, type, received_at_us, body_digest, facts, body
             FROM UNNEST($1::uuid[], $2::text[], $3::text[], $4::text[], $5::bigint[], $6::bytea[], $7::text[],
                         $8::bytea[])
                  WITH ORDINALITY
                  AS new (id, source, event_id, type, received_at_us, body_digest, facts, body, position)
             ORDER BY position",
            &column(messages, |m| m.id.as_uuid()),
            &column(messages, |m| m.source.as_str()) as &[&str],
            &column(messages, |m| m.event_id.as_str()) as &[&str],
            &column(messages, |m| m.event_type.as_deref()) as &[Option<&str>],
            &column(messages, |m| m.received_at.as_micros()),
            &column(messages, |m| &m.digest.as_bytes()[..]) as &[&[u8]],
            &column(messages, |m| m.facts.as_str()) as &[&str],
            &column(messages, |m| &m.body[..]) as &[&[u8]],
        )
        .execute(&mut *session)
        .await;
        self.sessions.judged(session, spooled.map(|_| ()).map_err(|e| store_error(&e)))
    }

    async fn claim_spooled(&self, claim: ClaimSpooled) -> Result<Vec<Spooled>, StoreError> {
        let taken = sqlx::query!(
            r#"
            WITH free AS (
                SELECT sequence FROM spool WHERE lease_until_us <= $1
                ORDER BY lease_until_us, sequence LIMIT $3 FOR UPDATE SKIP LOCKED
            ),
            taken AS (
                UPDATE spool SET lease_until_us = $2 FROM free WHERE spool.sequence = free.sequence RETURNING spool.*
            )
            SELECT sequence, id, source, event_id, type AS event_type, received_at_us, body_digest, facts, body
            FROM taken ORDER BY sequence
            "#,
            claim.now.as_micros(),
            claim.lease_until.as_micros(),
            i64::from(claim.limit),
        )
        .fetch_all(&mut *self.sessions.take().await?)
        .await
        .map_err(|e| store_error(&e))?;
        let spooled = taken.into_iter().map(|row| {
            let message = Message {
                id: row.id.into(),
                source: source(&row.source)?,
                event_id: row.event_id,
                event_type: row.event_type,
                received_at: Timestamp::from_micros(row.received_at_us),
                generation: 0,
                attempts: 0,
                digest: digest(&row.body_digest)?,
                facts: FactsJson::from_text(row.facts),
                body: row.body.into(),
            };
            Ok(Spooled { sequence: row.sequence, message })
        });
        spooled.collect()
    }

    async fn remove_spooled(&self, sequences: &[i64]) -> Result<(), StoreError> {
        sqlx::query!("DELETE FROM spool WHERE sequence = ANY($1)", sequences)
            .execute(&mut *self.sessions.take().await?)
            .await
            .map(|_| ())
            .map_err(|e| store_error(&e))
    }

    async fn spool_depth(&self) -> Result<u64, StoreError> {
        let mut session = self.sessions.take().await?;
        let spool = sqlx::query!(
            r#"SELECT count(*) AS "depth!", current_setting('transaction_read_only') = 'on' AS "read_only!" FROM spool"#
        )
        .fetch_one(&mut *session)
        .await
        .map_err(|e| store_error(&e))?;
        self.sessions.judged(session, writable(spool.read_only)).map(|()| count(spool.depth))
    }
}
