use oncefold_core::store::{RuleConflict, StoreError};
use thiserror::Error;

/// Why a worker does not start, or stops.
#[derive(Debug, Error)]
pub enum WorkerError {
    /// The config's rules may not be used with this store; the text says what to do.
    #[error("this worker's config does not fit the store: {0}")]
    Rules(RuleConflict),
    /// The store failed while the worker started.
    #[error("the worker cannot start: {0}")]
    Store(#[from] StoreError),
    /// `only_sources` names a source that is neither configured nor known to the store.
    #[error("there is no source `{0}`: `--source` takes the name of a `[sources.NAME]` section")]
    NoSuchSource(String),
    /// Another worker registered rules of a higher epoch while this one ran.
    #[error(
        "another worker raised a projection's epoch: this one's config is outdated, restart it with the present one"
    )]
    RulesBehind,
    /// A task panicked.
    #[error("{task} died: {cause}; the process ends so that it is started anew, nothing unsettled is lost")]
    TaskDied {
        /// The task.
        task: String,
        /// What is known of why.
        cause: String,
    },
    /// A task ended though nobody asked it to.
    #[error("{0} ended by itself, which is a defect; the process ends so that it is started anew")]
    TaskEnded(String),
}
