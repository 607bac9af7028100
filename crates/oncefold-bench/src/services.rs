//! A PostgreSQL and a RabbitMQ of the bench's own, through `scripts/services`.

use crate::clock;
use crate::measures::say;
use anyhow::{Context as _, Result, bail};
use sqlx::{AssertSqlSafe, ConnectOptions as _, Connection as _, PgConnection};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::str::FromStr as _;
use std::sync::atomic::{AtomicU32, Ordering};

const DIR: &str = "/var/tmp/oncefold-bench";
const POSTGRES_PORT: u16 = 54439;
const AMQP_PORT: u16 = 58729;
const START_TRIES: u32 = 3;
/// `guest:guest`.
const GUEST: &str = "Basic Z3Vlc3Q6Z3Vlc3Q=";

static NEXT: AtomicU32 = AtomicU32::new(0);

/// The workspace's root directory.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap_or(Path::new(".")).to_path_buf()
}

/// Both servers. Stopped at the end if they were started here.
pub struct Services {
    ours: bool,
}

impl Services {
    /// Starts what does not run.
    pub async fn start() -> Result<Self> {
        let ours = run(&["status"]).is_err();
        start_patiently()?;
        let services = Self { ours };
        keep_commit_times().await?;
        Ok(services)
    }
}

impl Drop for Services {
    fn drop(&mut self) {
        if self.ours {
            let _ = run(&["stop"]);
        }
    }
}

/// On a busy machine a broker that was stopped just before sometimes needs a second start.
fn start_patiently() -> Result<()> {
    let mut tried = run(&["start"]);
    for _ in 1..START_TRIES {
        if tried.is_ok() {
            break;
        }
        tried = run(&["start"]);
    }
    tried
}

fn run(args: &[&str]) -> Result<()> {
    let out = Command::new(root().join("scripts/services"))
        .args(args)
        .env("ONCEFOLD_TEST_DIR", DIR)
        .env("ONCEFOLD_TEST_POSTGRES_PORT", POSTGRES_PORT.to_string())
        .env("ONCEFOLD_TEST_AMQP_PORT", AMQP_PORT.to_string())
        .output()
        .context("scripts/services")?;
    if !out.status.success() {
        bail!("scripts/services {}: {}", args.join(" "), String::from_utf8_lossy(&out.stderr));
    }
    Ok(())
}

/// When a row was committed is known exactly only to a server that keeps it.
async fn keep_commit_times() -> Result<()> {
    let mut connection = connect(&server_url()).await?;
    let kept: String = sqlx::query_scalar("SHOW track_commit_timestamp").fetch_one(&mut connection).await?;
    if kept == "on" {
        return Ok(());
    }
    sqlx::query("ALTER SYSTEM SET track_commit_timestamp = on").execute(&mut connection).await?;
    connection.close().await?;
    run(&["stop", "postgres"])?;
    run(&["start", "postgres"])
}

fn server_url() -> String {
    format!("postgres://oncefold@127.0.0.1:{POSTGRES_PORT}/postgres")
}

/// A connection that logs no slow statements.
pub async fn connect(url: &str) -> Result<PgConnection> {
    let options = sqlx::postgres::PgConnectOptions::from_str(url)?.disable_statement_logging();
    options.connect().await.with_context(|| format!("cannot connect to {url}"))
}

/// Lets the broker put away what earlier runs left in its write-ahead log. All queues share that log, and when it is full
/// (512 MiB) all of it, of deleted queues too, is written a second time: a pause of up to half a second, which would
/// stand in some runs and not in others, whoever filled the log. The calls are inner ones of RabbitMQ 3.10: a version
/// that has them no more is measured as it is, and that is said.
fn empty_write_ahead_log() -> Result<()> {
    let roll_over = "ra_log_wal:force_roll_over(ra_log_wal), timer:sleep(200), \
                     ra_log_segment_writer:await(ra_log_segment_writer).";
    let said = rabbitmqctl(&["eval", roll_over])?;
    if said != "ok" {
        say(&format!("the broker keeps what earlier runs wrote, pauses may come of it: {said}"));
    }
    Ok(())
}

fn rabbitmqctl(args: &[&str]) -> Result<String> {
    let out = Command::new(format!("{DIR}/rabbitmqctl")).args(args).output().context("rabbitmqctl")?;
    Ok(String::from_utf8_lossy(&out.stdout).trim().to_owned())
}

/// What the servers are, for the report.
pub async fn versions() -> Result<(String, String)> {
    let mut connection = connect(&server_url()).await?;
    let postgres: String = sqlx::query_scalar("SHOW server_version").fetch_one(&mut connection).await?;
    Ok((postgres, rabbitmqctl(&["version"])?))
}

/// A database and a virtual host of one run; gone with it.
pub struct Place {
    name: String,
}

impl Place {
    /// Creates both, empty.
    pub async fn create() -> Result<Self> {
        empty_write_ahead_log()?;
        let name = format!(
            "oncefold_test_{}_bench_{}_{}",
            clock::now_us() / 1_000_000,
            std::process::id(),
            NEXT.fetch_add(1, Ordering::Relaxed)
        );
        let mut connection = connect(&server_url()).await?;
        sqlx::query(AssertSqlSafe(format!("CREATE DATABASE {name}"))).execute(&mut connection).await?;
        let place = Self { name };
        ureq::put(place.management()).header("authorization", GUEST).send_empty().context("cannot make a vhost")?;
        Ok(place)
    }

    fn management(&self) -> String {
        format!("http://127.0.0.1:{}/api/vhosts/{}", AMQP_PORT + 1, self.name)
    }

    /// The URL of its database.
    pub fn store_url(&self) -> String {
        format!("postgres://oncefold@127.0.0.1:{POSTGRES_PORT}/{}", self.name)
    }

    /// The URL of its virtual host.
    pub fn queue_url(&self) -> String {
        format!("amqp://guest:guest@127.0.0.1:{AMQP_PORT}/{}", self.name)
    }

    /// Drops both.
    pub async fn remove(self) -> Result<()> {
        let mut connection = connect(&server_url()).await?;
        let drop = format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", self.name);
        sqlx::query(AssertSqlSafe(drop)).execute(&mut connection).await?;
        Ok(())
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // The database is swept by a later start where `remove` was not reached.
        let _ = ureq::delete(self.management()).header("authorization", GUEST).call();
    }
}
