//! The fakes run the suites that the backends run: what is tested against them holds for those.

use super::{FakeQueue, FakeStore};
use crate::store_suite::StoreFactory;
use async_trait::async_trait;
use oncefold_core::queue::Queue;
use oncefold_core::store::{SpoolStore, Store};
use std::sync::Arc;

mod queue {
    use super::*;

    async fn open() -> (Arc<dyn Queue>, ()) {
        (Arc::new(FakeQueue::default()), ())
    }
    crate::queue_suite!(open);
}

struct Fakes(FakeStore);

#[async_trait]
impl StoreFactory for Fakes {
    async fn fresh(&self) -> Arc<dyn Store> {
        Arc::new(self.0.clone())
    }

    async fn spool(&self) -> Option<Arc<dyn SpoolStore>> {
        Some(Arc::new(self.0.clone()))
    }
}

mod store {
    use super::*;
    crate::store_suite!(Fakes(FakeStore::default()));
    crate::spool_suite!(Fakes(FakeStore::default()));
}
