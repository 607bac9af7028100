//! A file per command.

mod check;
mod dead_letters;
mod entities;
mod events;
mod healthcheck;
mod migrate;
mod presets;
mod roles;
mod send;
mod serve;
mod store_access;
mod token;
mod verify;

use crate::cli::{Cli, Command};
use crate::failure::{Ended, Failure};
use std::future::Future;

/// Runs the command of a command line.
///
/// # Errors
/// Why it failed, with what to do.
pub fn dispatch(cli: Cli) -> Result<Ended, Failure> {
    let config = cli.config.as_deref();
    match cli.command {
        // The demo's own tables are what is to be read.
        Command::Serve(args) if args.demo => logged(Some("error"), serve::run(&args, config)),
        Command::Serve(args) => logged(None, serve::run(&args, config)),
        Command::Ingest => logged(None, roles::ingest(config)),
        Command::Worker(args) => logged(None, roles::worker(&args, config)),
        Command::Admin => logged(None, roles::admin(config)),
        Command::Migrate(args) => block_on(migrate::run(&args, config, cli.json)),
        Command::Check => block_on(check::run(config, cli.json)),
        Command::Send(args) => send::run(&args, config, cli.json),
        Command::Verify(args) => verify::run(&args, config, cli.json),
        Command::Events(verb) => block_on(events::run(verb, config, cli.json)),
        Command::DeadLetters(verb) => block_on(dead_letters::run(verb, config, cli.json)),
        Command::Entities(verb) => block_on(entities::run(verb, config, cli.json)),
        Command::Presets(verb) => presets::run(&verb, cli.json),
        Command::Token(verb) => token::run(&verb, cli.json),
        Command::Healthcheck(args) => healthcheck::run(&args, config),
    }
}

/// Runs a role: with logs, which are written out before the process ends.
fn logged(filter: Option<&str>, role: impl Future<Output = Result<Ended, Failure>>) -> Result<Ended, Failure> {
    let asked = crate::settings::env("ONCEFOLD_LOG");
    let _guard = oncefold_telemetry::logs::start(asked.as_deref().or(filter)).map_err(Failure::config)?;
    block_on(role)
}

fn block_on(future: impl Future<Output = Result<Ended, Failure>>) -> Result<Ended, Failure> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(future)
}
