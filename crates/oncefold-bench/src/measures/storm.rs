//! R11: a provider sends everything again.

use super::{Plan, drained, say};
use crate::deployment::{Fleet, Side};
use crate::event::PATH;
use crate::load::{Length, Load, Pace};
use crate::oracle::Held;
use crate::report::{Measure, Target};
use crate::services;
use anyhow::{Result, bail};
use sqlx::PgConnection;
use std::net::SocketAddr;
use std::time::Duration;

const POLL: Duration = Duration::from_millis(200);
const POLLS_MAX: u32 = 600;

/// Measures. First deliveries and their repeats take turns in one deployment.
pub async fn run(plan: &Plan) -> Result<Vec<Measure>> {
    let mut acked =
        Measure::of("R11", "ingest, acked, all repeats / first ones", "events/s", Some(Target::AtLeast(1.0)));
    let fleet = Fleet::create(&plan.product).await?;
    let mut ingest = fleet.ingest(Side::Product)?;
    let target = ingest.address("intake").await?;
    let mut worker = fleet.worker(Side::Product)?;
    let mut store = services::connect(&fleet.store_url()).await?;
    let pairs = u64::try_from(plan.pairs)?;
    for pair in 0..pairs {
        say(&format!("storm, pair {}", pair + 1));
        let first = pair * plan.backlog;
        acked.theirs.push(deliver(target, first, plan.backlog).await?);
        drained::wait(&mut store, usize::try_from(first + plan.backlog)?).await?;
        acked.ours.push(deliver(target, first, plan.backlog).await?);
        wait_for_deliveries(&mut store, 2 * (first + plan.backlog)).await?;
    }
    worker.expect_running()?;
    worker.stop().await?;
    ingest.stop().await?;
    Held::in_postgres(&fleet.store_url()).await?.check(0..pairs * plan.backlog)?;
    fleet.remove().await?;
    Ok(vec![acked])
}

async fn deliver(target: SocketAddr, first: u64, count: u64) -> Result<f64> {
    let load = Load { target, path: PATH, first, pace: Pace::Closed, length: Length::Count(count), gate: None };
    Ok(load.run().await?.expect_all_acked()?.rate())
}

/// Every delivery is counted once the workers have seen it.
async fn wait_for_deliveries(store: &mut PgConnection, expected: u64) -> Result<()> {
    let expected = i64::try_from(expected)?;
    let mut counted = 0;
    for _ in 0..POLLS_MAX {
        counted = sqlx::query_scalar("SELECT sum(deliveries)::bigint FROM events").fetch_one(&mut *store).await?;
        if counted == expected {
            return Ok(());
        }
        tokio::time::sleep(POLL).await;
    }
    bail!("oracle: {counted} deliveries are counted instead of {expected}")
}
