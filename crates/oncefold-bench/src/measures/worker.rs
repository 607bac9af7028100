//! R3 and the worker's part of R10: draining a backlog.

use super::{Plan, SIDES, drained, fill, say};
use crate::deployment::{Fleet, Side};
use crate::oracle::Held;
use crate::report::{Measure, Target};
use crate::services;
use anyhow::Result;

struct Run {
    rate: f64,
    rss_mib: f64,
    cpu_us: f64,
    wal_bytes: f64,
    stored_bytes: f64,
}

/// Measures.
pub async fn run(plan: &Plan) -> Result<Vec<Measure>> {
    let mut rate = Measure::of("R3", "worker, drain of a backlog", "events/s", Some(Target::AtLeast(0.8)));
    let mut rss = Measure::of("R10", "worker, memory at a backlog", "MiB", Some(Target::AtMost(80.0)));
    let mut cpu = Measure::of("", "worker, processor time of an event", "us", None);
    let mut wal = Measure::of("", "write-ahead log of an event", "bytes", None);
    let mut stored = Measure::of("", "tables and indexes of an event", "bytes", None);
    for pair in 1..=plan.pairs {
        for side in SIDES {
            say(&format!("worker, pair {pair}, {side:?}"));
            let run = once(plan, side).await?;
            rate.add(side, run.rate);
            cpu.add(side, run.cpu_us);
            wal.add(side, run.wal_bytes);
            stored.add(side, run.stored_bytes);
            if side == Side::Product {
                rss.add(side, run.rss_mib);
            }
        }
    }
    Ok(vec![rate, cpu, wal, stored, rss])
}

async fn once(plan: &Plan, side: Side) -> Result<Run> {
    let fleet = Fleet::create(&plan.product).await?;
    let store = fleet.store_url();
    // Each side finds what its own intake leaves behind under load: the ceiling's publishes every event alone.
    let group_max = if side == Side::Product { oncefold_rabbitmq::GROUP_EVENTS_MAX } else { 1 };
    fill::rabbitmq(&fleet.queue_url(), plan.backlog, group_max).await?;
    drained::checkpoint(&store).await?;
    let (wal, stored) = (drained::wal_bytes(&store).await?, drained::stored_bytes(&store).await?);
    let mut worker = fleet.worker(side)?;
    drained::wait(&mut services::connect(&store).await?, usize::try_from(plan.backlog)?).await?;
    let events = plan.backlog as f64;
    let run = Run {
        rate: drained::rate(&drained::times(&store).await?),
        rss_mib: worker.peak_rss_mib()?,
        cpu_us: worker.cpu_seconds()? * 1e6 / events,
        wal_bytes: (drained::wal_bytes(&store).await? - wal) / events,
        stored_bytes: (drained::stored_bytes(&store).await? - stored) / events,
    };
    worker.expect_running()?;
    worker.stop().await?;
    Held::in_postgres(&store).await?.check(0..plan.backlog)?;
    fleet.remove().await?;
    Ok(run)
}
