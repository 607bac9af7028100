//! `ingest`, `worker`, `admin`: one role a process, over PostgreSQL and RabbitMQ.

use crate::backends::Database;
use crate::cli::Worker;
use crate::failure::{Ended, Failure};
use crate::output;
use crate::roles::Process;
use crate::settings;
use oncefold_core::SourceName;
use std::path::Path;

pub async fn ingest(config: Option<&Path>) -> Result<Ended, Failure> {
    let mut process = open("ingest", config).await?;
    require_schema_if_there(&process.database).await?;
    let address = process.add_ingest().await?;
    output::say(&format_args!("intake   http://{address}/in/{{source}}"));
    run(process).await
}

pub async fn worker(args: &Worker, config: Option<&Path>) -> Result<Ended, Failure> {
    let only = args.source.iter().map(|name| SourceName::parse(name)).collect::<Result<Vec<_>, _>>();
    let only = only.map_err(Failure::config)?;
    let mut process = open("worker", config).await?;
    process.database.require_schema().await?;
    process.add_worker(only).await?;
    run(process).await
}

pub async fn admin(config: Option<&Path>) -> Result<Ended, Failure> {
    let mut process = open("admin", config).await?;
    process.database.require_schema().await?;
    let (address, one_time_token) = process.add_admin().await?;
    output::say(&format_args!("admin    http://{address}/api/v1"));
    if let Some(token) = one_time_token {
        output::say(&format_args!("token    {token}   (until this process ends)"));
    }
    run(process).await
}

async fn open(role: &str, config: Option<&Path>) -> Result<Process, Failure> {
    let settings = settings::load(config)?;
    if matches!(settings.config.store, oncefold_config::StoreUrl::Sqlite(_)) {
        return Err(Failure::config(format!(
            "`{role}` as a process of its own needs store.url = \"postgres://…\" and queue.url = \"amqp://…\"; \
             with sqlite + embedded run `oncefold serve`, which has all roles"
        )));
    }
    Process::open(settings).await
}

/// Intake must start while the database is away: it then has the broker. A schema that is there must fit.
async fn require_schema_if_there(database: &Database) -> Result<(), Failure> {
    match database.pending_migrations().await {
        Ok(_) => database.require_schema().await,
        Err(e) => {
            tracing::warn!(error = %e, "the database is away: starting with the broker alone");
            Ok(())
        }
    }
}

async fn run(mut process: Process) -> Result<Ended, Failure> {
    if let Some(ops) = process.add_ops().await? {
        output::say(&format_args!("ops      http://{ops}/metrics /healthz /readyz"));
    }
    process.run().await.map(|()| Ended::Done)
}
