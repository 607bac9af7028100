//! R4, R5: intake, broker, worker and database at once.

use super::{Plan, SIDES, drained, say};
use crate::clock;
use crate::deployment::{Fleet, Side};
use crate::event::{PATH, WORK_QUEUE};
use crate::load::{Load, Pace};
use crate::oracle::Held;
use crate::report::{Measure, Target};
use crate::services;
use anyhow::{Context as _, Result};
use lapin::options::QueueDeclareOptions;
use lapin::types::FieldTable;
use lapin::{Channel, Connection, ConnectionProperties};
use sqlx::PgConnection;
use std::time::Duration;
use tokio::sync::watch;

/// Where events wait at the broker and the newest that is committed was received longer ago, the load pauses: what is
/// sustained is what leaves nothing behind. (A count of messages would not do: one may carry several events.)
const BEHIND_MAX: Duration = Duration::from_millis(250);
const LOOK: Duration = Duration::from_millis(20);

struct Run {
    rate: f64,
    lag_ms: (f64, f64),
    rss_mib: (f64, f64),
}

/// Measures.
pub async fn run(plan: &Plan) -> Result<Vec<Measure>> {
    let mut rate = Measure::of("R4", "end to end, sustained", "events/s", Some(Target::AtLeast(0.85)));
    let mut ingest = Measure::of("R10", "ingest, memory end to end", "MiB", Some(Target::AtMost(80.0)));
    let mut worker = Measure::of("R10", "worker, memory end to end", "MiB", Some(Target::AtMost(80.0)));
    for pair in 1..=plan.closed_pairs() {
        for side in SIDES {
            say(&format!("end to end, pair {pair}, {side:?}"));
            let run = once(plan, side, Pace::Closed).await?;
            rate.add(side, run.rate);
            if side == Side::Product {
                ingest.add(side, run.rss_mib.0);
                worker.add(side, run.rss_mib.1);
            }
        }
    }
    let half = plan.fixed_rate(&rate)?;
    let mut lag = Measure::of("R5", "received to applied, p99 at half that rate", "ms", Some(Target::AtMost(2.0)));
    let mut lag_median = Measure::of("", "received to applied, median at half that rate", "ms", None);
    for pair in 1..=plan.pairs {
        for side in SIDES {
            say(&format!("end to end at {half:.0}/s, pair {pair}, {side:?}"));
            let (median, p99) = once(plan, side, Pace::PerSecond(half)).await?.lag_ms;
            lag.add(side, p99);
            lag_median.add(side, median);
        }
    }
    Ok(vec![rate, lag, lag_median, ingest, worker])
}

async fn once(plan: &Plan, side: Side, pace: Pace) -> Result<Run> {
    let fleet = Fleet::create(&plan.product).await?;
    let mut ingest = fleet.ingest(side)?;
    let target = ingest.address("intake").await?;
    let mut worker = fleet.worker(side)?;
    let (connection, channel) = look_at(&fleet.queue_url()).await?;
    let (gate, open) = watch::channel(true);
    let watching = tokio::spawn(keep_gate(channel, services::connect(&fleet.store_url()).await?, gate));
    let from = clock::now_us() + i64::try_from(plan.warm.as_micros())?;
    let load = Load { target, path: PATH, first: 0, pace, length: plan.length(), gate: Some(open) };
    let sent = load.run().await?.expect_all_acked()?;
    watching.abort();
    drop(connection);
    drained::wait(&mut services::connect(&fleet.store_url()).await?, sent.acked.len()).await?;
    let times = drained::times(&fleet.store_url()).await?;
    let measured = from..from + i64::try_from(plan.measured.as_micros())?;
    let applied = times.iter().filter(|t| measured.contains(&t.committed_us)).count();
    let run = Run {
        rate: applied as f64 / plan.measured.as_secs_f64(),
        lag_ms: drained::lag_ms(&times, measured),
        rss_mib: (ingest.peak_rss_mib()?, worker.peak_rss_mib()?),
    };
    worker.expect_running()?;
    worker.stop().await?;
    ingest.stop().await?;
    Held::in_postgres(&fleet.store_url()).await?.check(sent.acked)?;
    fleet.remove().await?;
    Ok(run)
}

async fn look_at(queue_url: &str) -> Result<(Connection, Channel)> {
    let connection = Connection::connect(queue_url, ConnectionProperties::default()).await.context("broker")?;
    let channel = connection.create_channel().await?;
    Ok((connection, channel))
}

/// Opens and closes the gate by how far the worker is behind, until aborted.
async fn keep_gate(channel: Channel, mut store: PgConnection, gate: watch::Sender<bool>) -> Result<()> {
    let passive = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
    let behind_max = i64::try_from(BEHIND_MAX.as_micros())?;
    loop {
        let queue = channel.queue_declare(WORK_QUEUE.into(), passive, FieldTable::default()).await?;
        // Ids begin with the moment of receiving, on both sides.
        let newest: Option<i64> = sqlx::query_scalar("SELECT received_at_us FROM events ORDER BY id DESC LIMIT 1")
            .fetch_optional(&mut store)
            .await?;
        let is_close = newest.is_none_or(|received_us| clock::now_us() - received_us < behind_max);
        gate.send_replace(queue.message_count() == 0 || is_close);
        tokio::time::sleep(LOOK).await;
    }
}
