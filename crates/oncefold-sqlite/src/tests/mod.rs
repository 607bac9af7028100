mod conformance;
mod durability;
mod queue;

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

pub(crate) async fn open_in(dir: &TempDir) -> SqliteBackend {
    SqliteBackend::open(&url_in(dir)).await.unwrap()
}

pub(crate) fn url_in(dir: &TempDir) -> String {
    format!("sqlite://{}/oncefold.db", dir.path().display())
}
