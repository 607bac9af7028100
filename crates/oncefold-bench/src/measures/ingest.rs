//! R1, R2 and the intake's part of R10.

use super::{Plan, SIDES, drained, say};
use crate::deployment::{Fleet, Side};
use crate::event::PATH;
use crate::load::{Load, Pace};
use crate::oracle::Held;
use crate::report::{Measure, Target};
use crate::services;
use crate::stats::quantile;
use anyhow::Result;

struct Run {
    rate: f64,
    p50_ms: f64,
    p99_ms: f64,
    rss_mib: f64,
    cpu_us: f64,
}

/// Measures.
pub async fn run(plan: &Plan) -> Result<Vec<Measure>> {
    let mut acked = Measure::of("R1", "ingest, acked, 64 connections", "events/s", Some(Target::AtLeast(0.9)));
    let mut loaded = Measure::of("", "ingest, p99 at full load", "ms", None);
    let mut cpu = Measure::of("", "ingest, processor time of an event", "us", None);
    let mut rss = Measure::of("R10", "ingest, memory under full load", "MiB", Some(Target::AtMost(80.0)));
    for pair in 1..=plan.closed_pairs() {
        for side in SIDES {
            say(&format!("ingest, pair {pair}, {side:?}"));
            let run = once(plan, side, Pace::Closed).await?;
            acked.add(side, run.rate);
            loaded.add(side, run.p99_ms);
            cpu.add(side, run.cpu_us);
            if side == Side::Product {
                rss.add(side, run.rss_mib);
            }
        }
    }
    let half = plan.fixed_rate(&acked)?;
    let mut p99 = Measure::of("R2", "ingest, p99 at half that rate", "ms", Some(Target::AtMost(1.25)));
    let mut p50 = Measure::of("", "ingest, median at half that rate", "ms", None);
    for pair in 1..=plan.pairs {
        for side in SIDES {
            say(&format!("ingest at {half:.0}/s, pair {pair}, {side:?}"));
            let run = once(plan, side, Pace::PerSecond(half)).await?;
            p99.add(side, run.p99_ms);
            p50.add(side, run.p50_ms);
        }
    }
    Ok(vec![acked, p99, p50, loaded, cpu, rss])
}

async fn once(plan: &Plan, side: Side, pace: Pace) -> Result<Run> {
    let fleet = Fleet::create(&plan.product).await?;
    let mut ingest = fleet.ingest(side)?;
    let target = ingest.address("intake").await?;
    let load = Load { target, path: PATH, first: 0, pace, length: plan.length(), gate: None };
    let mut sent = load.run().await?.expect_all_acked()?;
    let run = Run {
        rate: sent.rate(),
        p50_ms: quantile(&mut sent.latencies_us, 0.5) as f64 / 1e3,
        p99_ms: quantile(&mut sent.latencies_us, 0.99) as f64 / 1e3,
        rss_mib: ingest.peak_rss_mib()?,
        cpu_us: ingest.cpu_seconds()? * 1e6 / sent.acked.len() as f64,
    };
    ingest.stop().await?;
    if side == Side::Product {
        let worker = fleet.worker(side)?;
        drained::wait(&mut services::connect(&fleet.store_url()).await?, sent.acked.len()).await?;
        worker.stop().await?;
        Held::in_postgres(&fleet.store_url()).await?.check(sent.acked)?;
    }
    fleet.remove().await?;
    Ok(run)
}
