//! Whether intake can do its job: while the queue or the spool takes events.

use oncefold_core::queue::Publisher;
use oncefold_core::store::SpoolStore;
use std::sync::Arc;
use std::time::Duration;

/// Longest wait for the spool's answer.
const PROBE_TIMEOUT: Duration = Duration::from_secs(2);

/// Answers for `/readyz`. Cheap to clone; outlives the role.
#[derive(Clone)]
pub struct IngestHealth {
    publisher: Arc<dyn Publisher>,
    spool: Option<Arc<dyn SpoolStore>>,
}

/// What intake could do with a delivery now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// The queue takes events.
    Queue,
    /// The queue is away, the spool takes events.
    Spool,
    /// Neither does: deliveries are answered 503.
    Nothing,
}

impl Readiness {
    /// Whether deliveries can be accepted.
    pub const fn is_ready(self) -> bool {
        !matches!(self, Self::Nothing)
    }
}

impl IngestHealth {
    pub(crate) fn of(publisher: Arc<dyn Publisher>, spool: Option<Arc<dyn SpoolStore>>) -> Self {
        Self { publisher, spool }
    }

    /// Looks now. The spool is asked only while the queue is away.
    pub async fn check(&self) -> Readiness {
        if self.publisher.is_available() {
            return Readiness::Queue;
        }
        let Some(spool) = &self.spool else { return Readiness::Nothing };
        match tokio::time::timeout(PROBE_TIMEOUT, spool.spool_depth()).await {
            Ok(Ok(_)) => Readiness::Spool,
            _ => Readiness::Nothing,
        }
    }
}
