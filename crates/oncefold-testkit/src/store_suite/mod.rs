//! The conformance suite of the store ports: what each sentence of `oncefold_core::store` means, checked. Both
//! backends run every case against an empty store, each as a test of its own:
//!
//! ```ignore
//! oncefold_testkit::store_suite!(MyFactory::start().await);
//! oncefold_testkit::spool_suite!(MyFactory::start().await);   // where there is a spool
//! ```

pub mod apply;
mod support;

use async_trait::async_trait;
use oncefold_core::store::{SpoolStore, Store};
use std::sync::Arc;

/// Gives empty stores.
#[async_trait]
pub trait StoreFactory: Send + Sync {
    /// An empty store with its schema; lives no longer than the factory.
    async fn fresh(&self) -> Arc<dyn Store>;

    /// An empty spool, where the backend has one.
    async fn spool(&self) -> Option<Arc<dyn SpoolStore>> {
        None
    }
}

/// Every case of the suite, as a test in a module named after the port: `store_suite!(factory)`, where the expression
/// gives a [`StoreFactory`] and may await.
#[macro_export]
macro_rules! store_suite {
    ($factory:expr) => {
        $crate::store_suite_cases! { $factory;
            apply: [
                a_new_event_is_recorded_with_its_verdict,
            ]
        }
    };
}

/// One test for each named case.
#[doc(hidden)]
#[macro_export]
macro_rules! store_suite_cases {
    ($factory:expr; $($module:ident: [$($case:ident,)*])*) => { $(
        mod $module {
            #[allow(unused_imports)]
            use super::*;
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $case() {
                    let factory = $factory;
                    let store = $crate::store_suite::StoreFactory::fresh(&factory).await;
                    $crate::store_suite::$module::$case(store).await;
                }
            )*
        }
    )* };
}
