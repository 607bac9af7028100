use crate::SqliteBackend;
use crate::error::{damaged, store_error};
use async_trait::async_trait;
use oncefold_core::id::{Digest, SourceName};
use oncefold_core::store::{Rule, RuleConflict, RulesStore, StoreError};
use oncefold_core::time::Timestamp;
use sqlx::SqliteConnection;

struct Registration {
    sources: Vec<SourceName>,
    rules: Vec<Rule>,
    now: Timestamp,
}

#[async_trait]
impl RulesStore for SqliteBackend {
    async fn register(&self, sources: &[SourceName], rules: &[Rule], now: Timestamp) -> Result<i64, RuleConflict> {
        let registration = Registration { sources: sources.to_vec(), rules: rules.to_vec(), now };
        self.writer.run(registration, |conn, registration| Box::pin(register(conn, registration))).await?
    }

    async fn known_sources(&self) -> Result<Vec<SourceName>, StoreError> {
        let names = sqlx::query_scalar!(r#"SELECT name AS "name!" FROM sources ORDER BY name"#)
            .fetch_all(&self.readers)
            .await
            .map_err(store_error)?;
        names.iter().map(|name| SourceName::parse(name).map_err(|_| damaged("a source name"))).collect()
    }
}

/// Compares before it writes: a conflict leaves nothing behind.
async fn register(
    conn: &mut SqliteConnection,
    Registration { sources, rules, now }: &Registration,
) -> Result<Result<i64, RuleConflict>, StoreError> {
    let mut raised = false;
    for rule in rules {
        match compare(conn, rule).await? {
            Ok(higher) => raised |= higher,
            Err(conflict) => return Ok(Err(conflict)),
        }
    }
    let now = now.as_micros();
    for source in sources {
        let name = source.as_str();
        sqlx::query!("INSERT INTO sources (name, first_seen_at_us) VALUES (?, ?) ON CONFLICT DO NOTHING", name, now)
            .execute(&mut *conn)
            .await
            .map_err(store_error)?;
    }
    for Rule { source, projection, epoch, fingerprint } in rules {
        let (source, fingerprint) = (source.as_str(), &fingerprint.as_bytes()[..]);
        sqlx::query!(
            "INSERT INTO projections (source, projection, epoch, fingerprint, registered_at_us) VALUES (?, ?, ?, ?, ?)
             ON CONFLICT (source, projection) DO UPDATE
             SET epoch = excluded.epoch, fingerprint = excluded.fingerprint,
                 registered_at_us = excluded.registered_at_us
             WHERE projections.epoch < excluded.epoch",
            source,
            projection,
            epoch,
            fingerprint,
            now
        )
        .execute(&mut *conn)
        .await
        .map_err(store_error)?;
    }
    let raise = i64::from(raised);
    sqlx::query_scalar!("UPDATE rules_version SET version = version + ? RETURNING version", raise)
        .fetch_one(conn)
        .await
        .map(Ok)
        .map_err(store_error)
}

/// Whether the rule raises the stored epoch; or how it contradicts what is stored.
async fn compare(conn: &mut SqliteConnection, rule: &Rule) -> Result<Result<bool, RuleConflict>, StoreError> {
    let source = rule.source.as_str();
    let stored = sqlx::query!(
        "SELECT epoch, fingerprint FROM projections WHERE source = ? AND projection = ?",
        source,
        rule.projection
    )
    .fetch_optional(conn)
    .await
    .map_err(store_error)?;
    let Some(stored) = stored else { return Ok(Ok(false)) };
    let epoch = u32::try_from(stored.epoch).map_err(|_| damaged("an epoch"))?;
    let fingerprint = Digest::try_from(&stored.fingerprint[..]).map_err(|_| damaged("a fingerprint"))?;
    let (source_name, projection) = (rule.source.clone(), rule.projection.clone());
    Ok(if epoch > rule.epoch {
        Err(RuleConflict::Behind { source_name, projection, stored: epoch, configured: rule.epoch })
    } else if epoch == rule.epoch && fingerprint != rule.fingerprint {
        Err(RuleConflict::Changed { source_name, projection, next_epoch: epoch.saturating_add(1) })
    } else {
        Ok(epoch < rule.epoch)
    })
}
