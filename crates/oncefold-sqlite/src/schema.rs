//! The schema and the binary: brought in step, or told apart.

use crate::SqliteBackend;
use crate::error::store_error;
use oncefold_core::store::StoreError;
use sqlx::migrate::{Migrate, MigrateError, Migrator};
use sqlx::{Connection, SqliteConnection};
use std::collections::BTreeMap;

static MIGRATOR: Migrator = sqlx::migrate!("../../migrations/sqlite");

impl SqliteBackend {
    /// Brings the schema up to date, in one transaction: of two processes that start at once, one does it.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] when the file cannot be written, or its schema is newer than this binary.
    pub async fn migrate(&self) -> Result<(), StoreError> {
        let ahead: Vec<String> = self.steps().await?.into_iter().filter(|step| !step.applies).map(|s| s.name).collect();
        if !ahead.is_empty() {
            return Err(StoreError::Unavailable(ahead.join("; ")));
        }
        self.writer.run_bare((), |conn, ()| Box::pin(migrate(conn))).await
    }

    /// What keeps this binary from working on the schema, a sentence each: migrations that are not applied, that it
    /// does not know, or that were changed. None: all is well.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub async fn pending_migrations(&self) -> Result<Vec<String>, StoreError> {
        Ok(self.steps().await?.into_iter().map(|step| step.name).collect())
    }

    async fn steps(&self) -> Result<Vec<Step>, StoreError> {
        let mut conn = self.readers.acquire().await.map_err(store_error)?;
        let tables = sqlx::query_scalar!("SELECT count(*) FROM sqlite_schema WHERE name = '_sqlx_migrations'")
            .fetch_one(&mut *conn)
            .await
            .map_err(store_error)?;
        let applied = if tables == 0 {
            Vec::new()
        } else {
            conn.list_applied_migrations(&MIGRATOR.table_name).await.map_err(migrate_error)?
        };
        let mut applied: BTreeMap<i64, _> = applied.into_iter().map(|m| (m.version, m.checksum)).collect();
        let mut steps = Vec::new();
        for known in MIGRATOR.iter() {
            let name = format!("{:04} {}", known.version, known.description);
            match applied.remove(&known.version) {
                None => steps.push(Step {
                    name: format!("migration {name} is not applied: run `oncefold migrate`"),
                    applies: true,
                }),
                Some(checksum) if checksum != known.checksum => {
                    steps.push(Step {
                        name: format!("migration {name} was applied in another form than this binary has"),
                        applies: false,
                    });
                }
                Some(_) => {}
            }
        }
        let unknown = applied.keys().map(|version| {
            format!("the database has migration {version:04}, which this binary does not know: use a newer binary")
        });
        steps.extend(unknown.map(|name| Step { name, applies: false }));
        Ok(steps)
    }
}

/// One difference; whether migrating mends it.
struct Step {
    name: String,
    applies: bool,
}

async fn migrate(conn: &mut SqliteConnection) -> Result<(), StoreError> {
    let mut transaction = conn.begin_with("BEGIN IMMEDIATE").await.map_err(store_error)?;
    MIGRATOR.run_direct(None, &mut *transaction, false).await.map_err(migrate_error)?;
    transaction.commit().await.map_err(store_error)
}

fn migrate_error(error: MigrateError) -> StoreError {
    match error {
        MigrateError::Execute(error) | MigrateError::ExecuteMigration(error, _) => store_error(error),
        other => StoreError::Unavailable(other.to_string()),
    }
}
