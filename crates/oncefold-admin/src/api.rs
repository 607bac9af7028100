//! What every endpoint works with.

use crate::auth::AdminToken;
use oncefold_core::queue::QueueAdmin;
use oncefold_core::store::{ActStore, ReadStore, RejectedDelivery, RejectedStore};
use oncefold_core::{Clock, SourceName};
use oncefold_telemetry::Metrics;
use std::sync::Arc;
use tokio_util::task::TaskTracker;

/// Explains rejected deliveries when somebody looks at them: that costs many hashes, so it is not done when they come.
pub trait Diagnose: Send + Sync {
    /// What trying other readings of the request found out, a line each; none where nothing can be said. Holds no secret
    /// and no expected signature.
    fn diagnose(&self, delivery: &RejectedDelivery) -> Vec<String>;
}

/// The state of the router.
pub struct Api {
    /// What people look at.
    pub read: Arc<dyn ReadStore>,
    /// What did not verify.
    pub rejected: Arc<dyn RejectedStore>,
    /// What explains it, if anything does.
    pub diagnose: Option<Arc<dyn Diagnose>>,
    /// What people do.
    pub act: Arc<dyn ActStore>,
    /// How full the queues are.
    pub queue: Option<Arc<dyn QueueAdmin>>,
    /// Where "now" comes from.
    pub clock: Arc<dyn Clock>,
    /// Counters of this process.
    pub metrics: Arc<Metrics>,
    /// The sources of the config.
    pub configured_sources: Vec<SourceName>,
    /// Who may ask.
    pub tokens: Vec<AdminToken>,
    /// Changes being made: they are finished even where the caller has hung up.
    pub mutations: TaskTracker,
}

/// [`Api`] as handlers get it.
pub type SharedApi = Arc<Api>;
