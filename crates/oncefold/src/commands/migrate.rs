//! `migrate`: brings the schema up to date.

use crate::backends::Database;
use crate::cli::Migrate;
use crate::failure::{Ended, Failure};
use crate::{output, settings};
use serde_json::json;
use std::path::Path;

pub async fn run(args: &Migrate, config: Option<&Path>, as_json: bool) -> Result<Ended, Failure> {
    let config = settings::load(config)?.config;
    let database = Database::open(&config).await?;
    let pending = database.pending_migrations().await?;
    if !args.check {
        database.migrate().await?;
    }
    if as_json {
        output::json(&json!({"found": pending, "applied": !args.check}))?;
    } else if args.check && !pending.is_empty() {
        pending.iter().try_for_each(|problem| output::line(problem))?;
    } else {
        output::line(&"the schema is up to date")?;
    }
    Ok(if args.check && !pending.is_empty() { Ended::Found } else { Ended::Done })
}
