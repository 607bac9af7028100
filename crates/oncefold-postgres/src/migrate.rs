//! Bringing the schema up to date, and telling whether it is.

use crate::PostgresStore;
use crate::error::store_error;
use oncefold_core::store::StoreError;
use sqlx::migrate::{Migrate as _, MigrateError, Migrator};
use sqlx::{Connection as _, Executor as _};
use std::collections::BTreeMap;

static MIGRATOR: Migrator = sqlx::migrate!("../../migrations/postgres");
/// Where sqlx notes what was applied.
const APPLIED_TABLE: &str = "_sqlx_migrations";

impl PostgresStore {
    /// Brings the schema up to date. Several processes may do so at once: one works, the others wait.
    ///
    /// # Errors
    /// Where the database is away, was migrated by a newer binary, or a migration fails; each is then rolled back.
    pub async fn migrate(&self) -> Result<(), StoreError> {
        // A connection of its own, which goes back to no pool: a migration takes as long as it takes.
        let mut connection = self.sessions.take_for_good().await?;
        connection.execute("SET statement_timeout = 0; SET lock_timeout = 0").await.map_err(|e| store_error(&e))?;
        let done = MIGRATOR.run(&mut connection).await.map_err(migrate_error);
        // How the connection ends changes nothing of what was done on it.
        let _ = connection.close().await;
        done
    }

    /// What keeps this binary from working on the schema, a sentence each: migrations that are not applied, that it
    /// does not know, or that were changed. None: all is well.
    ///
    /// # Errors
    /// Where the database is away.
    pub async fn pending_migrations(&self) -> Result<Vec<String>, StoreError> {
        let mut connection = self.sessions.take().await?;
        let noted = sqlx::query_scalar!(r#"SELECT to_regclass($1) IS NOT NULL AS "noted!""#, APPLIED_TABLE)
            .fetch_one(&mut *connection)
            .await
            .map_err(|e| store_error(&e))?;
        let applied = if noted {
            connection.list_applied_migrations(APPLIED_TABLE).await.map_err(migrate_error)?
        } else {
            vec![]
        };
        let applied: BTreeMap<_, _> = applied.into_iter().map(|m| (m.version, m.checksum)).collect();
        let known = MIGRATOR.iter().filter_map(|migration| {
            let name = format!("{:04} {}", migration.version, migration.description);
            match applied.get(&migration.version) {
                None => Some(format!("migration {name} is not applied: run `oncefold migrate`")),
                Some(checksum) if *checksum != migration.checksum => {
                    Some(format!("migration {name} was applied in another form than this binary has"))
                }
                Some(_) => None,
            }
        });
        let ahead = applied.keys().filter(|version| !MIGRATOR.version_exists(**version)).map(|version| {
            format!("the database has migration {version:04}, which this binary does not know: use a newer binary")
        });
        Ok(known.chain(ahead).collect())
    }
}

fn migrate_error(error: MigrateError) -> StoreError {
    match error {
        MigrateError::Execute(e) => store_error(&e),
        MigrateError::ExecuteMigration(e, version) => {
            StoreError::Failed(format!("migration {version:04}: {}", store_error(&e)))
        }
        MigrateError::VersionMissing(version) => StoreError::Failed(format!(
            "the database has migration {version:04}, which this binary does not know: use a newer binary"
        )),
        other => StoreError::Failed(other.to_string()),
    }
}
