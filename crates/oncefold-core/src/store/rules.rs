use super::StoreError;
use crate::id::{Digest, SourceName};
use crate::time::Timestamp;
use async_trait::async_trait;
use thiserror::Error;

/// A projection's rules of identity and order, as this process has them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The source.
    pub source: SourceName,
    /// The projection's name there.
    pub projection: String,
    /// Its epoch.
    pub epoch: u32,
    /// Digest of what decides identity and order.
    pub fingerprint: Digest,
}

/// Why a worker may not start with its rules.
#[derive(Debug, Error)]
pub enum RuleConflict {
    /// The rules changed, the epoch did not.
    #[error(
        "source `{source_name}`, projection `{projection}`: its id, key, version or rank changed, so its new order \
         keys do not compare with the stored ones. Set `epoch = {next_epoch}` on every projection of its entity kind, \
         or take the change back"
    )]
    Changed {
        /// The source.
        source_name: SourceName,
        /// The projection.
        projection: String,
        /// The epoch to set.
        next_epoch: u32,
    },
    /// The store knows a higher epoch.
    #[error(
        "source `{source_name}`, projection `{projection}`: the store knows epoch {stored}, this config says \
         {configured}. Use the config that raised it"
    )]
    Behind {
        /// The source.
        source_name: SourceName,
        /// The projection.
        projection: String,
        /// The store's epoch.
        stored: u32,
        /// This config's.
        configured: u32,
    },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// What is known of sources and rules across processes.
#[async_trait]
pub trait RulesStore: Send + Sync {
    /// Makes sources and rules known, and answers the store's rules version, which every batch carries. It grows
    /// whenever an epoch is raised.
    ///
    /// # Errors
    /// When a rule changed without its epoch, or the store's epoch is higher; then nothing is written.
    async fn register(&self, sources: &[SourceName], rules: &[Rule], now: Timestamp) -> Result<i64, RuleConflict>;

    /// Every source that was ever registered: the queue of a removed one is still consumed.
    async fn known_sources(&self) -> Result<Vec<SourceName>, StoreError>;
}
