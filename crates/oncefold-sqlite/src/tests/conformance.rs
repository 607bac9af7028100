//! What all backends do alike, one test a case.

use super::Scratch;
use async_trait::async_trait;
use oncefold_core::store::Store;
use oncefold_testkit::store_suite::StoreFactory;
use std::sync::{Arc, Mutex};
use tempfile::TempDir;

mod store {
    use super::Files;
    oncefold_testkit::store_suite!(Files::default());
}

mod queue {
    use super::Scratch;
    use oncefold_core::queue::Queue;
    use std::sync::Arc;
    use tempfile::TempDir;

    async fn open() -> (Arc<dyn Queue>, TempDir) {
        let Scratch { dir, backend } = Scratch::open().await;
        (Arc::new(backend), dir)
    }

    oncefold_testkit::queue_suite!(open);
}

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
