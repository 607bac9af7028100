//! `oncefold-bench`: how close the product runs to programs that do the same durable work and nothing else. What the
//! figures mean is in docs/performance.md.

mod ceilings;
mod clock;
mod deployment;
mod embedded;
mod event;
mod load;
mod machine;
mod measures;
mod oracle;
mod process;
mod report;
mod services;
mod stats;

use anyhow::{Context as _, Result, anyhow};
use ceilings::Ceiling;
use clap::{Parser, Subcommand};
use measures::Plan;
use report::Measure;
use services::Services;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Measures the product against ceilings, in turns, on this machine.
#[derive(Debug, Parser)]
#[command(name = "oncefold-bench", max_term_width = 110)]
struct Cli {
    #[command(subcommand)]
    what: What,
    /// Seconds instead of minutes: shows that everything works; the figures mean nothing
    #[arg(long, global = true)]
    quick: bool,
    /// Write the figures to this file
    #[arg(long, global = true, value_name = "FILE")]
    json: Option<PathBuf>,
    /// How often each side runs
    #[arg(long, global = true, value_name = "N")]
    pairs: Option<usize>,
    /// Events that wait when a worker starts
    #[arg(long, global = true, value_name = "N")]
    backlog: Option<u64>,
    /// Measure latency at this rate only, events a second (ingest, e2e)
    #[arg(long, global = true, value_name = "N")]
    rate: Option<f64>,
    /// Measure this binary instead of building the product
    #[arg(long, global = true, value_name = "FILE")]
    product: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Acked deliveries and their latency (R1, R2, R10)
    Ingest,
    /// Draining a backlog (R3, R10)
    Worker,
    /// All roles at once (R4, R5, R10)
    E2e,
    /// One process, one file (R7, R12)
    Embedded,
    /// Repeats against first deliveries (R11)
    Storm,
    /// What people use instead (R6)
    Peers,
    /// All of them; with --quick all but the peers, which need packages from registries
    All,
    /// A ceiling program; the bench starts these itself
    #[command(subcommand, hide = true)]
    Ceiling(Ceiling),
}

impl Cli {
    fn plan(&self) -> Result<Plan> {
        let (pairs, warm, measured, backlog) =
            if self.quick { (1, 300, 1_000, 3_000) } else { (5, 2_000, 8_000, 60_000) };
        Ok(Plan {
            product: match &self.product {
                Some(file) => file.canonicalize().with_context(|| format!("no {}", file.display()))?,
                None => deployment::build_product()?,
            },
            pairs: self.pairs.unwrap_or(pairs).max(1),
            warm: Duration::from_millis(warm),
            measured: Duration::from_millis(measured),
            rate: self.rate,
            backlog: self.backlog.unwrap_or(backlog).max(1),
        })
    }
}

#[tokio::main]
#[allow(clippy::print_stderr, reason = "errors of a command-line program")]
async fn main() -> ExitCode {
    let cli = Cli::parse();
    let done = match cli.what {
        What::Ceiling(ceiling) => ceilings::run(ceiling).await,
        _ => tokio::select! {
            done = bench(&cli) => done,
            // Ending this way stops what was started.
            _ = tokio::signal::ctrl_c() => Err(anyhow!("interrupted")),
        },
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

#[allow(clippy::print_stdout, reason = "the table is what this program is for")]
async fn bench(cli: &Cli) -> Result<()> {
    let plan = cli.plan()?;
    let _services = Services::start().await?;
    let (postgres, rabbitmq) = services::versions().await?;
    let mut machine = machine::describe(&postgres, &rabbitmq);
    let mut measures = measure(cli, &plan).await?;
    measures.retain(Measure::has_runs);
    machine["load_after"] = machine::load().into();
    println!("{machine:#}\n\n{}", report::table(&measures));
    if cli.quick || cfg!(debug_assertions) {
        println!("Tried only (--quick or a debug build): everything works; the figures and verdicts mean nothing.");
    }
    if let Some(file) = &cli.json {
        std::fs::write(file, format!("{:#}\n", report::json(&machine, &measures)))
            .with_context(|| format!("cannot write {}", file.display()))?;
    }
    Ok(())
}

async fn measure(cli: &Cli, plan: &Plan) -> Result<Vec<Measure>> {
    Ok(match cli.what {
        What::Ingest => measures::ingest::run(plan).await?,
        What::Worker => measures::worker::run(plan).await?,
        What::E2e => measures::e2e::run(plan).await?,
        What::Embedded => measures::embedded::run(plan).await?,
        What::Storm => measures::storm::run(plan).await?,
        What::Peers => measures::peers::run(plan).await?,
        What::All | What::Ceiling(_) => {
            let mut all = measures::ingest::run(plan).await?;
            all.extend(measures::worker::run(plan).await?);
            all.extend(measures::e2e::run(plan).await?);
            all.extend(measures::embedded::run(plan).await?);
            all.extend(measures::storm::run(plan).await?);
            if !cli.quick {
                all.extend(measures::peers::run(plan).await?);
            }
            all
        }
    })
}
