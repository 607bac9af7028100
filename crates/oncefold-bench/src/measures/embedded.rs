//! R7 and R12: everything in one process and one file.

use super::{Plan, SIDES, drained, fill, say};
use crate::deployment::{Embedded, Side};
use crate::embedded::reader;
use crate::event::PATH;
use crate::load::{Load, Pace};
use crate::oracle::Held;
use crate::report::{Measure, Target};
use crate::stats::quantile;
use anyhow::{Context as _, Result, bail};
use oncefold_sqlite::SqliteBackend;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;
use tokio::time::Instant;

/// What R12 adds to the time `sqlite3` takes.
const START_ALLOWANCE: Duration = Duration::from_millis(50);

/// Measures.
pub async fn run(plan: &Plan) -> Result<Vec<Measure>> {
    let (empty, full) = (Embedded::create(&plan.product, None)?, Embedded::create(&plan.product, None)?);
    prepare(&empty.file(), 0).await?;
    prepare(&full.file(), plan.backlog).await?;
    let mut acked =
        Measure::of("R7", "embedded, acked, 64 connections, applying", "events/s", Some(Target::AtLeast(0.8)));
    let mut p99 = Measure::of("", "embedded, p99 at that load", "ms", None);
    let mut drain = Measure::of("R7", "embedded, drain of a backlog", "events/s", Some(Target::AtLeast(0.8)));
    let mut rss = Measure::of("", "embedded, memory under full load", "MiB", None);
    for pair in 1..=plan.pairs {
        for side in SIDES {
            say(&format!("embedded, pair {pair}, {side:?}"));
            let load = load(plan, side, &empty.file()).await?;
            acked.add(side, load.rate);
            p99.add(side, load.p99_ms);
            rss.add(side, load.rss_mib);
            drain.add(side, drain_once(plan, side, &full.file()).await?);
        }
    }
    let mut start = Measure::of("R12", "embedded, start to ready / sqlite3 + 50 ms", "ms", Some(Target::AtMost(2.0)));
    for pair in 1..=plan.pairs {
        say(&format!("cold start, pair {pair}"));
        start.ours.push(cold_start(&full).await?.as_secs_f64() * 1e3);
        start.theirs.push((sqlite3(&full.file()).await? + START_ALLOWANCE).as_secs_f64() * 1e3);
    }
    Ok(vec![acked, p99, drain, start, rss])
}

/// A file of the present schema with this many events on the queue.
async fn prepare(file: &Path, backlog: u64) -> Result<()> {
    let backend = SqliteBackend::open(&format!("sqlite://{}", file.display())).await?;
    backend.migrate().await?;
    fill::publish(&backend, backlog).await?;
    backend.close().await;
    Ok(())
}

struct Loaded {
    rate: f64,
    p99_ms: f64,
    rss_mib: f64,
}

async fn load(plan: &Plan, side: Side, template: &Path) -> Result<Loaded> {
    let embedded = Embedded::create(&plan.product, Some(template))?;
    let mut process = embedded.serve(side)?;
    let target = process.address("intake").await?;
    let load = Load { target, path: PATH, first: 0, pace: Pace::Closed, length: plan.length(), gate: None };
    let mut sent = load.run().await?.expect_all_acked()?;
    drained::wait(&mut reader(&embedded.file()).await?, sent.acked.len()).await?;
    let loaded = Loaded {
        rate: sent.rate(),
        p99_ms: quantile(&mut sent.latencies_us, 0.99) as f64 / 1e3,
        rss_mib: process.peak_rss_mib()?,
    };
    process.stop().await?;
    Held::in_sqlite(&embedded.file()).await?.check(sent.acked)?;
    Ok(loaded)
}

async fn drain_once(plan: &Plan, side: Side, template: &Path) -> Result<f64> {
    let embedded = Embedded::create(&plan.product, Some(template))?;
    let process = embedded.serve(side)?;
    drained::wait(&mut reader(&embedded.file()).await?, usize::try_from(plan.backlog)?).await?;
    process.stop().await?;
    Held::in_sqlite(&embedded.file()).await?.check(0..plan.backlog)?;
    // A batch carries the moment before its commit: from the first to the last, all but the last one were committed.
    let (seconds, events): (f64, i64) = sqlx::query_as(
        "SELECT (max(settled_at_us) - min(settled_at_us)) / 1e6,
                count(*) FILTER (WHERE settled_at_us < (SELECT max(settled_at_us) FROM events)) FROM events",
    )
    .fetch_one(&mut reader(&embedded.file()).await?)
    .await?;
    Ok(events as f64 / seconds)
}

async fn cold_start(on: &Embedded) -> Result<Duration> {
    let copy = Embedded::create(on.product(), Some(&on.file()))?;
    let start = Instant::now();
    let mut process = copy.serve(Side::Product)?;
    process.ready().await?;
    Ok(start.elapsed())
}

async fn sqlite3(file: &Path) -> Result<Duration> {
    let start = Instant::now();
    let mut command = Command::new("sqlite3");
    command.arg(file).arg("SELECT count(*) FROM sqlite_schema").stdout(Stdio::null());
    if !command.status().context("sqlite3")?.success() {
        bail!("sqlite3 cannot open {}", file.display());
    }
    Ok(start.elapsed())
}
