//! R6: what people use instead, in the same minute under the same load.

use super::{Plan, say};
use crate::deployment::{Fleet, Side};
use crate::event::{self, PATH};
use crate::load::{Load, Pace, Sent};
use crate::process::Running;
use crate::report::{Measure, Target};
use crate::services::root;
use anyhow::{Context as _, Result, bail};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use tokio::net::TcpStream;

const POLL: Duration = Duration::from_millis(50);
const POLLS_MAX: u32 = 400;

/// Measures.
pub async fn run(plan: &Plan) -> Result<Vec<Measure>> {
    let peers = Peers::install()?;
    let target = |ratio| Some(Target::AtLeast(ratio));
    let mut flask = Measure::of("R6", "ingest, acked, / Flask + gunicorn + Redis", "events/s", target(6.0));
    let mut express = Measure::of("R6", "ingest, acked, / Express + amqplib confirm", "events/s", target(2.5));
    for pair in 1..=plan.pairs {
        say(&format!("peers, pair {pair}"));
        let ours = product(plan).await?;
        flask.ours.push(ours);
        express.ours.push(ours);
        flask.theirs.push(peers.flask(plan).await?);
        express.theirs.push(peers.express(plan).await?);
    }
    Ok(vec![flask, express])
}

async fn product(plan: &Plan) -> Result<f64> {
    let fleet = Fleet::create(&plan.product).await?;
    let mut ingest = fleet.ingest(Side::Product)?;
    let target = ingest.address("intake").await?;
    let rate = load(plan, target).await?.expect_all_acked()?.rate();
    ingest.stop().await?;
    fleet.remove().await?;
    Ok(rate)
}

async fn load(plan: &Plan, target: SocketAddr) -> Result<Sent> {
    Load { target, path: PATH, first: 0, pace: Pace::Closed, length: plan.length(), gate: None }.run().await
}

/// Where the peers and their packages are.
struct Peers {
    sources: PathBuf,
    dir: PathBuf,
}

impl Peers {
    fn install() -> Result<Self> {
        let peers =
            Self { sources: root().join("crates/oncefold-bench/peers"), dir: root().join("target/bench/peers") };
        say("installing the peers' packages, the first time");
        let status = Command::new(peers.sources.join("install")).arg(&peers.dir).status().context("peers/install")?;
        if !status.success() {
            bail!("the peers' packages cannot be installed");
        }
        Ok(peers)
    }

    /// Five processes of four threads: gunicorn's own advice for two processors, with connections kept alive.
    async fn flask(&self, plan: &Plan) -> Result<f64> {
        let scratch = tempfile::tempdir_in(&self.dir)?;
        let (redis_at, at) = (free_address()?, free_address()?);
        let library = self.dir.join("redis/usr/lib").join(format!("{}-linux-gnu", std::env::consts::ARCH));
        let mut redis = Command::new(self.dir.join("redis/usr/bin/redis-server"));
        redis.args(["--bind", "127.0.0.1", "--port", &redis_at.port().to_string(), "--dir"]).arg(scratch.path());
        let redis = Running::start(redis.env("LD_LIBRARY_PATH", library), scratch.path())?;
        wait_for(redis_at).await?;
        let mut gunicorn = Command::new(self.dir.join("venv/bin/gunicorn"));
        gunicorn.args(["-k", "gthread", "-w", "5", "--threads", "4", "-b", &at.to_string(), "flask_app:app"]);
        gunicorn.current_dir(&self.sources).env("BENCH_REDIS_PORT", redis_at.port().to_string());
        gunicorn.env("BENCH_SECRET", event::SECRET).env("PYTHONDONTWRITEBYTECODE", "1");
        let rate = rate_of(&mut gunicorn, at, scratch.path(), plan).await?;
        redis.stop().await?;
        Ok(rate)
    }

    async fn express(&self, plan: &Plan) -> Result<f64> {
        let scratch = tempfile::tempdir_in(&self.dir)?;
        let fleet = Fleet::create(&plan.product).await?;
        let at = free_address()?;
        let mut node = Command::new("node");
        node.arg(self.sources.join("express_app.mjs")).env("BENCH_NODE_DIR", &self.dir).env("NODE_ENV", "production");
        node.env("BENCH_PORT", at.port().to_string()).env("BENCH_AMQP_URL", fleet.queue_url());
        node.env("BENCH_SECRET", event::SECRET);
        let rate = rate_of(&mut node, at, scratch.path(), plan).await?;
        fleet.remove().await?;
        Ok(rate)
    }
}

async fn rate_of(command: &mut Command, at: SocketAddr, scratch: &Path, plan: &Plan) -> Result<f64> {
    let mut process = Running::start(command, scratch)?;
    wait_for(at).await.inspect_err(|_| say(&format!("{:?}", process.expect_running())))?;
    let sent = load(plan, at).await?;
    // A peer may close connections as it likes; one that fails more often than it answers was not measured.
    if sent.acked.len() as u64 <= sent.failed {
        bail!("{command:?}: {} answers, {} failures", sent.acked.len(), sent.failed);
    }
    process.stop().await?;
    Ok(sent.rate())
}

fn free_address() -> Result<SocketAddr> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?)
}

async fn wait_for(at: SocketAddr) -> Result<()> {
    for _ in 0..POLLS_MAX {
        if TcpStream::connect(at).await.is_ok() {
            return Ok(());
        }
        tokio::time::sleep(POLL).await;
    }
    bail!("nobody listens on {at}")
}
