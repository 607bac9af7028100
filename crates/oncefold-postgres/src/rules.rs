//! Sources and rules of identity and order, across processes.

use crate::PostgresStore;
use crate::convert::{integer, small, source};
use crate::error::store_error;
use async_trait::async_trait;
use oncefold_core::id::SourceName;
use oncefold_core::store::{Rule, RuleConflict, RulesStore, StoreError};
use oncefold_core::time::Timestamp;
use sqlx::PgConnection;

/// Names the advisory lock on the rules' version; an arbitrary number that only we use.
const RULES_LOCK: i64 = 0x6f6e_6365_666f_6c65;

/// Holds the rules' version as it is until the transaction ends; batches do so side by side. A lock on its row would do
/// the same, but those who share a row overtake one who waits to change it, which under load never gets to.
///
/// A statement of its own: what comes after it sees what the registration it waited for has committed.
pub(crate) async fn hold_version(connection: &mut PgConnection) -> Result<(), StoreError> {
    sqlx::query!("SELECT pg_advisory_xact_lock_shared($1)", RULES_LOCK)
        .fetch_one(connection)
        .await
        .map(|_| ())
        .map_err(|e| store_error(&e))
}

#[async_trait]
impl RulesStore for PostgresStore {
    async fn register(&self, sources: &[SourceName], rules: &[Rule], now: Timestamp) -> Result<i64, RuleConflict> {
        let mut transaction = self.pool.begin().await.map_err(|e| store_error(&e))?;
        // Registrations come one at a time, and none while a batch is being applied.
        sqlx::query!("SELECT pg_advisory_xact_lock($1)", RULES_LOCK)
            .fetch_one(&mut *transaction)
            .await
            .map_err(|e| store_error(&e))?;
        let version = sqlx::query_scalar!("SELECT version FROM rules_version")
            .fetch_one(&mut *transaction)
            .await
            .map_err(|e| store_error(&e))?;
        let raised = raised(&mut transaction, rules).await?;
        write(&mut transaction, sources, rules, now).await.map_err(|e| store_error(&e))?;
        let version = if raised { version + 1 } else { version };
        if raised {
            sqlx::query!("UPDATE rules_version SET version = $1", version)
                .execute(&mut *transaction)
                .await
                .map_err(|e| store_error(&e))?;
        }
        transaction.commit().await.map_err(|e| store_error(&e))?;
        Ok(version)
    }

    async fn known_sources(&self) -> Result<Vec<SourceName>, StoreError> {
        let names = sqlx::query_scalar!("SELECT name FROM sources ORDER BY name")
            .fetch_all(&self.pool)
            .await
            .map_err(|e| store_error(&e))?;
        names.iter().map(|name| source(name)).collect()
    }
}

/// Whether any epoch is higher than the stored one.
async fn raised(connection: &mut PgConnection, rules: &[Rule]) -> Result<bool, RuleConflict> {
    let mut raised = false;
    for rule in rules {
        let stored = sqlx::query!(
            "SELECT epoch, fingerprint FROM projections WHERE source = $1 AND projection = $2",
            rule.source.as_str(),
            rule.projection,
        )
        .fetch_optional(&mut *connection)
        .await
        .map_err(|e| store_error(&e))?;
        let Some(stored) = stored else { continue };
        let epoch = small(stored.epoch);
        if epoch > rule.epoch {
            return Err(RuleConflict::Behind {
                source_name: rule.source.clone(),
                projection: rule.projection.clone(),
                stored: epoch,
                configured: rule.epoch,
            });
        }
        if epoch == rule.epoch && stored.fingerprint != rule.fingerprint.as_bytes() {
            return Err(RuleConflict::Changed {
                source_name: rule.source.clone(),
                projection: rule.projection.clone(),
                next_epoch: epoch + 1,
            });
        }
        raised |= epoch < rule.epoch;
    }
    Ok(raised)
}

async fn write(
    connection: &mut PgConnection,
    sources: &[SourceName],
    rules: &[Rule],
    now: Timestamp,
) -> sqlx::Result<()> {
    sqlx::query!(
        "INSERT INTO sources (name, first_seen_at_us) SELECT name, $2 FROM UNNEST($1::text[]) AS new (name)
         ON CONFLICT DO NOTHING",
        &sources.iter().map(SourceName::as_str).collect::<Vec<_>>() as &[&str],
        now.as_micros(),
    )
    .execute(&mut *connection)
    .await?;
    for rule in rules {
        sqlx::query!(
            "INSERT INTO projections (source, projection, epoch, fingerprint, registered_at_us)
             VALUES ($1, $2, $3, $4, $5)
             ON CONFLICT (source, projection) DO UPDATE
             SET epoch = excluded.epoch, fingerprint = excluded.fingerprint,
                 registered_at_us = excluded.registered_at_us
             WHERE projections.epoch < excluded.epoch",
            rule.source.as_str(),
            rule.projection,
            integer(rule.epoch),
            &rule.fingerprint.as_bytes()[..],
            now.as_micros(),
        )
        .execute(&mut *connection)
        .await?;
    }
    Ok(())
}
