//! What SQLite and PostgreSQL do alike, one test a case.

use super::Scratch;
use async_trait::async_trait;
use oncefold_core::store::Store;
use oncefold_testkit::store_suite::StoreFactory;
use std::sync::{Arc, Mutex};
use tempfile::TempDir;

/// Gives stores in files that go with it.
#[derive(Default)]
struct Files(Mutex<Vec<TempDir>>);

#[async_trait]
impl StoreFactory for Files {
    async fn fresh(&self) -> Arc<dyn Store> {
        let Scratch { dir, backend } = Scratch::open().await;
        self.0.lock().unwrap().push(dir);
        Arc::new(backend)
    }
}

oncefold_testkit::store_suite!(Files::default());
