use oncefold_core::SourceName;
use oncefold_core::retry::RetryPolicy;
use std::time::Duration;

/// How a worker works. The defaults are those of contract.md, "Config".
#[derive(Clone, Debug)]
pub struct WorkerSettings {
    /// Most events of one transaction.
    pub batch: usize,
    /// Batches of a source that are written at once, at least one.
    pub writers: usize,
    /// Batches of all sources that are written at once: fewer than the store has connections, so that duties get one.
    pub writers_max: usize,
    /// How long a batch waits to fill, since its first message.
    pub linger: Duration,
    /// Most messages a source's consumer holds unsettled.
    pub prefetch: u16,
    /// Most bytes of bodies the consumers of this worker hold unsettled, together.
    pub prefetch_bytes: usize,
    /// How failed attempts are spaced, and when they end.
    pub retry: RetryPolicy,
    /// How long event ids are remembered after an event settled.
    pub ids_retention: Duration,
    /// How long bodies and changes are kept after an event settled.
    pub bodies_retention: Duration,
    /// Names this start of this process: a restart has another one, so that marks of the dead are told from ours.
    pub holder: String,
    /// Consume only these sources; all where absent. Duties are shared, and run in every worker.
    pub only_sources: Option<Vec<SourceName>>,
    /// Intervals and leases of the background duties.
    pub pace: Pace,
}

impl WorkerSettings {
    /// Most events of one transaction, such that the prefetch holds what several writers write and a batch more, which
    /// is taken in meanwhile.
    pub(crate) fn batch_max(&self) -> usize {
        match self.writers {
            0 | 1 => self.batch,
            several => self.batch.min(usize::from(self.prefetch) / (several + 1)).max(1),
        }
    }

    /// The defaults, for the process start of this name.
    pub fn defaults(holder: String) -> Self {
        const HOUR_S: u64 = 3600;
        Self {
            batch: 500,
            writers: 2,
            writers_max: 12,
            linger: Duration::from_millis(10),
            prefetch: 1000,
            prefetch_bytes: 16 * 1024 * 1024,
            retry: RetryPolicy { max_attempts: 60, base: Duration::from_secs(2), cap: Duration::from_secs(HOUR_S) },
            ids_retention: Duration::from_secs(35 * 24 * HOUR_S),
            bodies_retention: Duration::from_secs(30 * 24 * HOUR_S),
            holder,
            only_sources: None,
            pace: Pace::default(),
        }
    }
}

/// Intervals and leases of the background duties.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Between two looks for due events, where the last look found few.
    pub scheduler: Duration,
    /// Between two looks into the spool, where the last look found few.
    pub relay: Duration,
    /// Most events a scheduler or relay claims at once.
    pub page: u32,
    /// How long claimed events are ours while they are being published.
    pub sending_lease: Duration,
    /// How long an event may wait in the queue, once confirmed, before it is sent again.
    pub sent_lease: Duration,
    /// How long a mark says "being tried" before it says "died trying".
    pub trial_lease: Duration,
    /// Between two samples of the gauges of stored things.
    pub gauges: Duration,
    /// Between two rounds of forgetting.
    pub prune: Duration,
    /// Most rows forgotten in one transaction.
    pub prune_limit: u32,
    /// How long the store may take to answer one request before it counts as away. Forgetting takes its time.
    pub store_deadline: Duration,
    /// First pause after the database or a queue went away; it doubles from try to try.
    pub pause_first: Duration,
    /// Longest such pause.
    pub pause_max: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            scheduler: Duration::from_millis(300),
            relay: Duration::from_millis(500),
            page: 256,
            sending_lease: Duration::from_secs(15),
            sent_lease: Duration::from_secs(3600),
            trial_lease: Duration::from_secs(60),
            gauges: Duration::from_secs(15),
            prune: Duration::from_secs(3600),
            prune_limit: 1000,
            store_deadline: Duration::from_secs(30),
            pause_first: Duration::from_millis(250),
            pause_max: Duration::from_secs(5),
        }
    }
}
