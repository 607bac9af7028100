//! The rejected log.

use crate::PostgresStore;
use crate::convert::source;
use crate::error::store_error;
use async_trait::async_trait;
use oncefold_core::limits::REJECTED_ROWS_MAX;
use oncefold_core::store::{Prune, RejectedDelivery, RejectedRecord, RejectedRequest, RejectedStore, StoreError};
use oncefold_core::time::Timestamp;
use sqlx::PgConnection;
use std::collections::BTreeSet;

#[async_trait]
impl RejectedStore for PostgresStore {
    async fn record_rejected(&self, deliveries: &[RejectedDelivery]) -> Result<(), StoreError> {
        fn column<'a, T>(all: &'a [RejectedDelivery], value: impl Fn(&'a RejectedDelivery) -> T) -> Vec<T> {
            all.iter().map(value).collect()
        }
        let mut session = self.sessions.take().await?;
        let mut transaction = session.begin().await.map_err(|e| store_error(&e))?;
        sqlx::query!(
            "INSERT INTO rejected (source, at_us, reason, detail, request, body)
             SELECT source, at_us, reason, detail, request, body
             FROM UNNEST($1::text[], $2::bigint[], $3::text[], $4::text[], $5::text[], $6::bytea[])
                  WITH ORDINALITY AS new (source, at_us, reason, detail, request, body, position)
             ORDER BY position",
            &column(deliveries, |d| d.source.as_str()) as &[&str],
            &column(deliveries, |d| d.at.as_micros()),
            &column(deliveries, |d| d.reason.as_str()) as &[&str],
            &column(deliveries, |d| d.detail.as_str()) as &[&str],
            &column(deliveries, |d| d.request.encode()),
            &column(deliveries, |d| d.body.as_deref()) as &[Option<&[u8]>],
        )
        .execute(&mut *transaction)
        .await
        .map_err(|e| store_error(&e))?;
        let sources: BTreeSet<_> = deliveries.iter().map(|delivery| delivery.source.as_str()).collect();
        sqlx::query!(
            "DELETE FROM rejected USING (
                 SELECT named.source, edge.sequence FROM UNNEST($1::text[]) AS named (source),
                 LATERAL (SELECT sequence FROM rejected WHERE rejected.source = named.source
                          ORDER BY sequence DESC LIMIT 1 OFFSET $2) AS edge
             ) AS old
             WHERE rejected.source = old.source AND rejected.sequence <= old.sequence",
            &sources.into_iter().collect::<Vec<_>>() as &[&str],
            i64::from(REJECTED_ROWS_MAX),
        )
        .execute(&mut *transaction)
        .await
        .map_err(|e| store_error(&e))?;
        transaction.commit().await.map_err(|e| store_error(&e))
    }

    async fn rejected(
        &self,
        of_source: Option<&str>,
        before: Option<i64>,
        limit: u32,
    ) -> Result<Vec<RejectedRecord>, StoreError> {
        let rows = sqlx::query!(
            "SELECT sequence, source, at_us, reason, detail, request, body FROM rejected
             WHERE ($1::text IS NULL OR source = $1) AND ($2::bigint IS NULL OR sequence < $2)
             ORDER BY sequence DESC LIMIT $3",
            of_source,
            before,
            i64::from(limit),
        )
        .fetch_all(&mut *self.sessions.take().await?)
        .await
        .map_err(|e| store_error(&e))?;
        let record = rows.into_iter().map(|row| {
            let delivery = RejectedDelivery {
                source: source(&row.source)?,
                at: Timestamp::from_micros(row.at_us),
                reason: row.reason,
                detail: row.detail,
                request: RejectedRequest::decode(&row.request),
                body: row.body.map(Into::into),
            };
            Ok(RejectedRecord { sequence: row.sequence, delivery })
        });
        record.collect()
    }
}

/// Removes old deliveries, oldest first. The table is small: so many of each source are kept at most.
pub(crate) async fn forget(connection: &mut PgConnection, prune: &Prune) -> sqlx::Result<u64> {
    let deleted = sqlx::query!(
        "DELETE FROM rejected WHERE sequence = ANY(ARRAY(
             SELECT sequence FROM rejected WHERE at_us < $1 ORDER BY sequence LIMIT $2))",
        prune.bodies_before.as_micros(),
        i64::from(prune.limit),
    )
    .execute(connection)
    .await?;
    Ok(deleted.rows_affected())
}
