mod conformance;
mod durability;
mod inbox;
mod migrations;
mod only_here;
mod queue;
mod verdict;

use crate::SqliteBackend;
use tempfile::TempDir;

/// A file of its own, with the schema.
pub(crate) struct Scratch {
    pub(crate) dir: TempDir,
    pub(crate) backend: SqliteBackend,
}

impl Scratch {
    pub(crate) async fn open() -> Self {
        let dir = TempDir::new().unwrap();
        let backend = open_in(&dir).await;
        backend.migrate().await.unwrap();
        Self { dir, backend }
    }
}

/// Runs a statement that the ports do not offer.
pub(crate) async fn execute(backend: &SqliteBackend, sql: &'static str) {
    let run = backend.writer.run_bare(sql, |conn, sql| {
        Box::pin(async move { sqlx::query(*sql).execute(conn).await.map(|_| ()).map_err(crate::error::store_error) })
    });
    run.await.unwrap();
}

pub(crate) async fn open_in(dir: &TempDir) -> SqliteBackend {
    SqliteBackend::open(&url_in(dir)).await.unwrap()
}

pub(crate) fn url_in(dir: &TempDir) -> String {
    format!("sqlite://{}/oncefold.db", dir.path().display())
}
