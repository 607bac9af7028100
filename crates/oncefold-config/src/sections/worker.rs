//! `[worker]`: how events are taken from the queue.

use crate::reader::{Schema, Table};
use std::time::Duration;

pub(crate) const SCHEMA: Schema = Schema { title: "[worker]", keys: &["batch", "linger", "prefetch"], later: &[] };

const BATCH_MAX: u32 = 10_000;
/// AMQP 0-9-1 has 16 bits for it (`basic.qos`).
const PREFETCH_MAX: u32 = 65_535;
const LINGER_MAX: Duration = Duration::from_secs(1);

/// Settings of workers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Worker {
    /// Most events of one transaction.
    pub batch: u32,
    /// How long a batch that is not full waits for more.
    pub linger: Duration,
    /// Most events that are held unacknowledged.
    pub prefetch: u32,
}

impl Default for Worker {
    fn default() -> Self {
        Self { batch: 500, linger: Duration::from_millis(10), prefetch: 1_000 }
    }
}

pub(crate) fn read(root: &Table<'_>) -> Worker {
    let section = root.section("worker", &SCHEMA);
    let default = Worker::default();
    let worker = Worker {
        batch: section.get("batch").and_then(|n| n.integer(1..=BATCH_MAX)).unwrap_or(default.batch),
        linger: section.get("linger").and_then(|n| n.duration(Duration::ZERO..=LINGER_MAX)).unwrap_or(default.linger),
        prefetch: section.get("prefetch").and_then(|n| n.integer(1..=PREFETCH_MAX)).unwrap_or(default.prefetch),
    };
    if worker.prefetch < worker.batch {
        let node = section.get("prefetch").or_else(|| section.get("batch"));
        let place = node.map_or(section.place, |n| n.place);
        section.context.warn(
            &place,
            format!("prefetch {} is less than batch {}: batches never fill", worker.prefetch, worker.batch),
            "raise prefetch to twice the batch, or lower the batch",
        );
    }
    worker
}
