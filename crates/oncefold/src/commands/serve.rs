//! `serve`: all roles in one process.

use crate::cli::Serve;
use crate::clock::{OsEntropy, SystemClock};
use crate::demo::{self, Traffic};
use crate::failure::{Ended, Failure};
use crate::output;
use crate::roles::Process;
use crate::settings::{self, Settings};
use anyhow::Context as _;
use oncefold_config::{Config, StoreUrl};
use oncefold_core::Clock as _;
use std::net::SocketAddr;
use std::path::Path;

/// Where the roles of a process listen.
struct Addresses {
    ingest: SocketAddr,
    admin: SocketAddr,
    ops: Option<SocketAddr>,
    one_time_token: Option<String>,
}

pub async fn run(args: &Serve, config: Option<&Path>) -> Result<Ended, Failure> {
    if args.demo {
        return demo(args.exit).await;
    }
    let settings = settings::load(config)?;
    let built_in = settings.file.is_none();
    let _held = hold(&settings.config)?;
    let mut process = Process::open(settings).await?;
    let addresses = start(&mut process).await?;
    announce(&addresses);
    if built_in {
        output::say(&how_to_send(&addresses, &process.config));
    }
    process.run().await.map(|()| Ended::Done)
}

/// Holds the database file for this process. Verbs may use it beside us; a second queue consumer may not: it would take
/// what is in our hands for left behind.
fn hold(config: &Config) -> Result<Option<std::fs::File>, Failure> {
    let StoreUrl::Sqlite(path) = &config.store else { return Ok(None) };
    let lock = path.with_added_extension("lock");
    let file = std::fs::File::options().create(true).append(true).open(&lock);
    let file = file.with_context(|| format!("cannot make {}; the directory must be writable", lock.display()))?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(std::fs::TryLockError::WouldBlock) => Err(Failure::config(format!(
            "another `oncefold serve` uses {}: stop it, or give this one another store.url",
            path.display()
        ))),
        Err(std::fs::TryLockError::Error(e)) => {
            Err(Failure::Run(anyhow::Error::new(e).context(lock.display().to_string())))
        }
    }
}

async fn start(process: &mut Process) -> Result<Addresses, Failure> {
    process.database.require_schema().await?;
    process.add_worker(vec![]).await?;
    let ingest = process.add_ingest().await?;
    let (admin, one_time_token) = process.add_admin().await?;
    let ops = process.add_ops().await?;
    Ok(Addresses { ingest, admin, ops, one_time_token })
}

fn announce(addresses: &Addresses) {
    output::say(&format_args!("intake   http://{}/in/{{source}}", addresses.ingest));
    output::say(&format_args!("admin    http://{}/api/v1", addresses.admin));
    if let Some(ops) = addresses.ops {
        output::say(&format_args!("ops      http://{ops}/metrics /healthz /readyz"));
    }
    if let Some(token) = &addresses.one_time_token {
        output::say(&format_args!(
            "token    {token}   (admin, until this process ends; make a lasting one: oncefold token new)"
        ));
    }
}

fn how_to_send(addresses: &Addresses, config: &Config) -> String {
    let store = match &config.store {
        StoreUrl::Sqlite(path) if path == Path::new("oncefold.db") => String::new(),
        store => format!("ONCEFOLD_STORE_URL={store} "),
    };
    let token = addresses.one_time_token.as_deref().unwrap_or("$TOKEN");
    format!(
        "\nSend an event of your own, and look at what became of it:\n  \
         oncefold send --source demo --type order.updated --data '{{\"data\":{{\"id\":\"ord_1\",\"status\":\"Ready\",\"total\":2500}}}}' --url http://{ingest}/in/demo\n  \
         {store}oncefold entities get order ord_1\n  \
         {store}oncefold events list\n  \
         {store}oncefold dead-letters groups\n  \
         curl -H 'Authorization: Bearer {token}' http://{admin}/api/v1/entities",
        ingest = addresses.ingest,
        admin = addresses.admin,
    )
}

/// The built-in config on a scratch file. Its ports are the usual ones where they are free.
async fn demo(exit: bool) -> Result<Ended, Failure> {
    let scratch = tempfile::Builder::new().prefix("oncefold-demo-").tempdir().context("no scratch directory")?;
    let mut config = Config::parse("(built-in demo config)", demo::CONFIG, &|_| None).map_err(Failure::config)?.config;
    config.store = StoreUrl::Sqlite(scratch.path().join("demo.db"));
    config.ingest.listen = free_or_any(config.ingest.listen);
    config.admin.listen = free_or_any(config.admin.listen);
    let mut process = Process::open(Settings { config, file: None }).await?;
    let addresses = start(&mut process).await?;
    let holds = show(&process, &addresses).await?;
    if exit {
        process.stop_token().cancel();
    } else {
        announce(&addresses);
        output::say(&how_to_send(&addresses, &process.config));
        output::say(&"\nIt stays up; Ctrl-C ends it, and removes the scratch file.");
    }
    process.run().await?;
    Ok(if holds || !exit { Ended::Done } else { Ended::Found })
}

/// Sends the traffic, prints the tables.
async fn show(process: &Process, addresses: &Addresses) -> Result<bool, Failure> {
    let source = process.config.source(demo::SOURCE).context("the demo config has no demo source")?;
    let secret = source.secrets.first().context("the demo source has no secret")?;
    let traffic = Traffic::make(&source.scheme, secret, SystemClock.now(), &OsEntropy)?;
    let url = format!("http://{}/in/{}", addresses.ingest, demo::SOURCE);
    output::say(&format_args!(
        "Sending {} deliveries to {url}: every event twice, shuffled, some forged, some that cannot be mapped.",
        traffic.deliveries.len()
    ));
    let deliveries = traffic.deliveries.clone();
    let answers = tokio::task::spawn_blocking(move || demo::deliver(&url, &deliveries)).await??;
    let report = demo::observe(process.database.store().as_ref(), &traffic, answers).await?;
    output::line(&format_args!("\n{}\n", report.render()))?;
    Ok(report.holds())
}

/// The address, or any port of it where it is taken.
fn free_or_any(address: SocketAddr) -> SocketAddr {
    match std::net::TcpListener::bind(address) {
        Ok(_) => address,
        Err(_) => SocketAddr::new(address.ip(), 0),
    }
}
