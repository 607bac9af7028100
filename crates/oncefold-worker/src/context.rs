use crate::gate::Gate;
use crate::health::Health;
use crate::settings::WorkerSettings;
use oncefold_core::prepare::{Prepared, Preparer};
use oncefold_core::queue::Queue;
use oncefold_core::store::{SpoolStore, Store, StoreError};
use oncefold_core::{Clock, Entropy, Failure, Message, Reason, SourceName};
use oncefold_telemetry::Metrics;
use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;
use tokio::sync::Semaphore;
use tracing::{error, warn};

/// What every task of the worker shares.
pub(crate) struct Context {
    pub settings: WorkerSettings,
    pub sources: HashMap<SourceName, Preparer>,
    pub rules_version: i64,
    pub store: Arc<dyn Store>,
    pub queue: Arc<dyn Queue>,
    pub spool: Option<Arc<dyn SpoolStore>>,
    pub clock: Arc<dyn Clock>,
    pub entropy: Arc<dyn Entropy>,
    pub metrics: Arc<Metrics>,
    pub gate: Gate,
    /// A share for each batch that may be written at once.
    pub writing: Semaphore,
    pub health: Arc<Health>,
}

impl Context {
    /// What a message means under the present config.
    pub fn prepare(&self, message: &Message) -> Prepared {
        match self.sources.get(&message.source) {
            Some(source) => source.prepare(message),
            None => {
                let why = format!("no source `{}` is configured any more", message.source);
                Prepared::dead(message.event_type.clone(), Failure::of(Reason::UnknownSource, why))
            }
        }
    }

    /// A store that does not answer in time is away: a host that vanished may never close its connections.
    pub async fn in_time<T>(&self, asked: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
        let deadline = self.settings.pace.store_deadline;
        match tokio::time::timeout(deadline, asked).await {
            Ok(answer) => answer,
            Err(_) => Err(StoreError::Unavailable(format!("no answer within {} s", deadline.as_secs()))),
        }
    }

    /// Deals with a failure outside of verdicts: closes the gate where the database is away, else only tells.
    pub fn store_failed(&self, doing: &str, e: &StoreError) {
        match e {
            StoreError::Unavailable(cause) | StoreError::Hindered(cause) => self.store_is_away(cause),
            StoreError::Conflict(_) => warn!(error = %e, "{doing}: lost against another transaction, done again"),
            StoreError::Refused(_) | StoreError::Failed(_) | StoreError::RulesBehind => {
                error!(error = %e, "{doing}: failed, done again later");
            }
        }
    }
}
