//! Sources and rules of identity and order, across processes.

use crate::PostgresStore;
use crate::convert::{integer, small, source};
use crate::error::store_error;
use async_trait::async_trait;
use oncefold_core::id::SourceName;
use oncefold_core::store::{Rule, RuleConflict, RulesStore, StoreError};
use oncefold_core::time::Timestamp;
use sqlx::PgConnection;
use std::collections::HashSet;

/// Names the advisory lock on the rules' version; an arbitrary number that only we use.
pub(crate) const RULES_LOCK: i64 = 0x6f6e_6365_666f_6c65;

/// Holds the rules' version as it is until the transaction ends; batches do so side by side. A lock on its row would do
/// the same, but those who share a row overtake one who waits to change it, which under load never gets to.
///
/// What comes after this statement sees what the registration it waited for has committed; the statement itself would
/// not. A batch holds the version by its first statement and looks at it in a later one.
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
        if let Some(version) = self.known(sources, rules).await? {
            return Ok(version);
        }
        let mut session = self.sessions.take().await?;
        let mut transaction = session.begin().await.map_err(|e| store_error(&e))?;
        // Registrations that change something come one at a time, and none while a batch is being applied.
        sqlx::query!("SELECT pg_advisory_xact_lock($1)", RULES_LOCK)
            .fetch_one(&mut *transaction)
            .await
            .map_err(|e| store_error(&e))?;
        let version = sqlx::query_scalar!("SELECT version FROM rules_version")
            .fetch_one(&mut *transaction)
            .await
            .map_err(|e| store_error(&e))?;
        let raised = compare(&mut transaction, rules).await? == Standing::Raised;
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
            .fetch_all(&mut *self.sessions.take().await?)
            .await
            .map_err(|e| store_error(&e))?;
        names.iter().map(|name| source(name)).collect()
    }
}

impl PostgresStore {
    /// The rules' version where everything is registered already, as at most starts: then nothing has to be written, and
    /// nobody waits for batches that are being applied.
    async fn known(&self, sources: &[SourceName], rules: &[Rule]) -> Result<Option<i64>, RuleConflict> {
        let mut session = self.sessions.take().await?;
        let mut transaction = session.begin().await.map_err(|e| store_error(&e))?;
        hold_version(&mut transaction).await?;
        let names: Vec<&str> = sources.iter().map(SourceName::as_str).collect();
        let found = sqlx::query!(
            r#"SELECT version, (SELECT count(*) FROM sources WHERE name = ANY($1)) AS "sources!" FROM rules_version"#,
            &names as &[&str],
        )
        .fetch_one(&mut *transaction)
        .await
        .map_err(|e| store_error(&e))?;
        let distinct = names.iter().collect::<HashSet<_>>().len();
        let all = usize::try_from(found.sources).is_ok_and(|known| known == distinct);
        let standing = compare(&mut transaction, rules).await?;
        Ok((all && standing == Standing::Known).then_some(found.version))
    }
}

/// How rules compare with those that are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Standing {
    /// All of them are stored as they are.
    Known,
    /// Some are not stored.
    New,
    /// Some have a higher epoch than the stored ones.
    Raised,
}

async fn compare(connection: &mut PgConnection, rules: &[Rule]) -> Result<Standing, RuleConflict> {
    let mut standing = Standing::Known;
    for rule in rules {
        let stored = sqlx::query!(
            "SELECT epoch, fingerprint FROM projections WHERE source = $1 AND projection = $2",
            rule.source.as_str(),
            rule.projection,
        )
        .fetch_optional(&mut *connection)
        .await
        .map_err(|e| store_error(&e))?;
        let Some(stored) = stored else {
            standing = standing.max(Standing::New);
            continue;
        };
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
        if epoch < rule.epoch {
            standing = Standing::Raised;
        }
    }
    Ok(standing)
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
