use crate::SqliteBackend;
use crate::error::{damaged, store_error};
use async_trait::async_trait;
use oncefold_core::id::SourceName;
use oncefold_core::limits::REJECTED_ROWS_MAX;
use oncefold_core::store::{RejectedDelivery, RejectedRecord, RejectedRequest, RejectedStore, StoreError};
use oncefold_core::time::Timestamp;
use sqlx::SqliteConnection;
use std::collections::BTreeSet;

#[async_trait]
impl RejectedStore for SqliteBackend {
    async fn record_rejected(&self, deliveries: &[RejectedDelivery]) -> Result<(), StoreError> {
        if deliveries.is_empty() {
            return Ok(());
        }
        self.writer.run(deliveries.to_vec(), |conn, deliveries| Box::pin(record(conn, deliveries))).await
    }

    async fn rejected(
        &self,
        source: Option<&str>,
        before: Option<i64>,
        limit: u32,
    ) -> Result<Vec<RejectedRecord>, StoreError> {
        let rows = sqlx::query!(
            r#"SELECT sequence AS "sequence!", source, at_us, reason, detail, request, body
               FROM rejected WHERE (?1 IS NULL OR source = ?1) AND (?2 IS NULL OR sequence < ?2)
               ORDER BY sequence DESC LIMIT ?3"#,
            source,
            before,
            limit
        )
        .fetch_all(&self.readers)
        .await
        .map_err(store_error)?;
        let record = rows.into_iter().map(|row| {
            let delivery = RejectedDelivery {
                source: SourceName::parse(&row.source).map_err(|_| damaged("a source name"))?,
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

async fn record(conn: &mut SqliteConnection, deliveries: &[RejectedDelivery]) -> Result<(), StoreError> {
    for delivery in deliveries {
        let (source, at, request) = (delivery.source.as_str(), delivery.at.as_micros(), delivery.request.encode());
        let body = delivery.body.as_deref();
        sqlx::query!(
            "INSERT INTO rejected (source, at_us, reason, detail, request, body) VALUES (?, ?, ?, ?, ?, ?)",
            source,
            at,
            delivery.reason,
            delivery.detail,
            request,
            body
        )
        .execute(&mut *conn)
        .await
        .map_err(store_error)?;
    }
    for source in deliveries.iter().map(|delivery| delivery.source.as_str()).collect::<BTreeSet<_>>() {
        sqlx::query!(
            "DELETE FROM rejected WHERE source = ?1 AND sequence <= (
                 SELECT sequence FROM rejected WHERE source = ?1 ORDER BY sequence DESC LIMIT 1 OFFSET ?2)",
            source,
            REJECTED_ROWS_MAX
        )
        .execute(&mut *conn)
        .await
        .map_err(store_error)?;
    }
    Ok(())
}

/// Removes old deliveries, oldest first.
pub(crate) async fn forget(conn: &mut SqliteConnection, before: Timestamp, limit: i64) -> Result<u64, StoreError> {
    let before = before.as_micros();
    let deleted = sqlx::query!(
        "DELETE FROM rejected WHERE sequence IN
             (SELECT sequence FROM rejected WHERE at_us < ?1 ORDER BY sequence LIMIT ?2)",
        before,
        limit
    )
    .execute(conn)
    .await
    .map_err(store_error)?;
    Ok(deleted.rows_affected())
}
