//! `check`: validates config, secrets and connections; names every problem, not just the first.

use crate::backends::{Broker, Database};
use crate::failure::{Ended, Failure};
use crate::{output, settings};
use oncefold_config::{Config, StoreUrl};
use oncefold_core::queue::QueueError;
use serde_json::json;
use std::path::Path;
use std::time::Duration;

const BROKER_WAIT: Duration = Duration::from_secs(10);

pub async fn run(config: Option<&Path>, as_json: bool) -> Result<Ended, Failure> {
    let (settings, warnings) = settings::load_with_warnings(config)?;
    let mut problems = vec![];
    problems.extend(database_problem(&settings.config).await);
    problems.extend(queue_problem(&settings.config).await);
    let file = settings.file.map_or_else(|| "(built-in demo config)".to_owned(), |f| f.display().to_string());
    if as_json {
        output::json(&json!({"config": file, "problems": problems, "warnings": warnings}))?;
    } else {
        warnings.iter().for_each(|warning| output::say(&format_args!("warning: {warning}")));
        problems.iter().for_each(|problem| output::say(&format_args!("problem: {problem}")));
        if problems.is_empty() {
            let sources = settings.config.sources.len();
            output::line(&format_args!("{file}: ok, {sources} source{}", if sources == 1 { "" } else { "s" }))?;
        }
    }
    Ok(if problems.is_empty() { Ended::Done } else { Ended::Found })
}

async fn database_problem(config: &Config) -> Option<String> {
    if let StoreUrl::Sqlite(path) = &config.store
        && !path.exists()
    {
        // `serve` makes the file: only its directory has to be there.
        let directory = path.parent().filter(|d| !d.as_os_str().is_empty());
        let missing = directory.filter(|d| !d.is_dir())?;
        return Some(format!("store.url: the directory {} is not there; make it", missing.display()));
    }
    let database = match Database::open(config).await {
        Ok(database) => database,
        Err(e) => return Some(format!("store.url: {e}")),
    };
    let problem = match database.pending_migrations().await {
        Ok(pending) if pending.is_empty() => None,
        Ok(pending) => Some(format!("store: {}", pending.join("; "))),
        Err(e) => Some(format!("store.url: {e}; check that it runs, and user, password and database name")),
    };
    database.close().await;
    problem
}

async fn queue_problem(config: &Config) -> Option<String> {
    if matches!(config.store, StoreUrl::Sqlite(_)) {
        return None;
    }
    let database = Database::open(config).await.ok()?;
    let broker = match Broker::start(config, &database) {
        Ok(broker) => broker,
        Err(e) => return Some(e.to_string()),
    };
    let asked = async {
        loop {
            match broker.queue.depths(&[]).await {
                Ok(_) => return None,
                Err(e @ QueueError::Misconfigured(_)) => return Some(e.to_string()),
                Err(QueueError::Away(_)) => tokio::time::sleep(Duration::from_millis(200)).await,
            }
        }
    };
    let away =
        || Some("queue.url: the broker does not answer; check that it runs, and user, password and vhost".to_owned());
    let problem = tokio::time::timeout(BROKER_WAIT, asked).await.unwrap_or_else(|_| away());
    broker.close().await;
    problem
}
