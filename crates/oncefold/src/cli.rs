//! The command line (contract.md, "Command line"): an enum of roles and verbs.

use clap::{Args, Parser, Subcommand};
use std::path::PathBuf;

/// Folds at-least-once webhooks into exactly-once state.
#[derive(Debug, Parser)]
#[command(name = "oncefold", version, about, max_term_width = 110)]
pub struct Cli {
    /// Config file [default: ./oncefold.toml]
    #[arg(long, global = true, env = "ONCEFOLD_CONFIG", value_name = "PATH")]
    pub config: Option<PathBuf>,
    /// Print data as JSON
    #[arg(long, global = true)]
    pub json: bool,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run all roles in one process (without a config file: embedded, on loopback, with the source `demo`)
    Serve(Serve),
    /// Run the intake role: verify, make durable, answer 2xx
    Ingest,
    /// Run a worker: consume, fold, apply
    Worker(Worker),
    /// Run the admin API
    Admin,
    /// Bring the database schema up to date
    Migrate(Migrate),
    /// Validate config, secrets and connections; names every problem
    Check,
    /// Sign and send test events
    Send(Send),
    /// Explain the signature verdict on a captured request
    Verify(Verify),
    /// The event log
    #[command(subcommand)]
    Events(Events),
    /// The parked events
    #[command(subcommand)]
    DeadLetters(DeadLetters),
    /// Folded state
    #[command(subcommand)]
    Entities(Entities),
    /// Shipped provider settings
    #[command(subcommand)]
    Presets(Presets),
    /// Admin tokens
    #[command(subcommand)]
    Token(Token),
    /// Ask `/readyz` of a role on this host
    Healthcheck(Healthcheck),
}

/// `serve`.
#[derive(Debug, Args)]
pub struct Serve {
    /// In a scratch file, with signed sample traffic, doubled and shuffled; prints what happened and stays up
    #[arg(long)]
    pub demo: bool,
    /// With --demo: leave when the table is printed, 0 if every check holds, else 1
    #[arg(long, requires = "demo")]
    pub exit: bool,
}

/// `worker`.
#[derive(Debug, Args)]
pub struct Worker {
    /// Consume only this source (repeatable)
    #[arg(long, value_name = "NAME")]
    pub source: Vec<String>,
}

/// `migrate`.
#[derive(Debug, Args)]
pub struct Migrate {
    /// Only tell what is pending: exit 1 if anything is
    #[arg(long)]
    pub check: bool,
}

/// `send`.
#[derive(Debug, Args)]
pub struct Send {
    /// The source whose secret signs
    #[arg(long)]
    pub source: String,
    /// The event type, put where the source's rule reads it
    #[arg(long = "type", value_name = "TYPE")]
    pub event_type: String,
    /// The body: JSON, @FILE, or - for standard input; several JSON documents one after the other are several events
    #[arg(long)]
    pub data: String,
    /// The event id [default: a new one an event]
    #[arg(long)]
    pub id: Option<String>,
    /// Send every event so many times
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub repeat: u32,
    /// Send in random order
    #[arg(long)]
    pub shuffle: bool,
    /// Where to [default: the source at ingest.listen]
    #[arg(long)]
    pub url: Option<String>,
}

/// `verify`.
#[derive(Debug, Args)]
pub struct Verify {
    /// The source whose scheme and secrets decide
    #[arg(long)]
    pub source: String,
    /// File with one `Name: value` a line
    #[arg(long)]
    pub headers: PathBuf,
    /// File with the exact body
    #[arg(long)]
    pub body: PathBuf,
    /// The time to judge at, Unix seconds or RFC 3339 [default: now]
    #[arg(long)]
    pub at: Option<String>,
    /// The request's method
    #[arg(long, default_value = "POST")]
    pub method: String,
    /// The URL the provider sent to
    #[arg(long)]
    pub url: Option<String>,
}

/// Filters of events and dead letters.
#[derive(Debug, Args)]
pub struct EventFilters {
    /// Of this source
    #[arg(long)]
    pub source: Option<String>,
    /// Of this type
    #[arg(long = "type", value_name = "TYPE")]
    pub event_type: Option<String>,
    /// Received at or after, RFC 3339 or Unix seconds
    #[arg(long)]
    pub since: Option<String>,
    /// Received before
    #[arg(long)]
    pub until: Option<String>,
    /// At most so many
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=500))]
    pub limit: u32,
    /// Continue after a page
    #[arg(long)]
    pub cursor: Option<String>,
}

/// `events`.
#[derive(Debug, Subcommand)]
pub enum Events {
    /// List events, newest first
    List {
        /// Filters.
        #[command(flatten)]
        filters: EventFilters,
        /// In this status
        #[arg(long)]
        status: Option<String>,
        /// That changed this kind of entity
        #[arg(long)]
        entity: Option<String>,
        /// That changed the entity of this key
        #[arg(long)]
        key: Option<String>,
        /// Known by this id at their source
        #[arg(long)]
        event_id: Option<String>,
    },
    /// Show one event
    Show {
        /// Its id
        id: String,
        /// Print the exact body instead
        #[arg(long)]
        body: bool,
    },
    /// Put events back on the queue
    Replay {
        /// Their ids
        #[arg(required = true)]
        ids: Vec<String>,
    },
}

/// `dead-letters`.
#[derive(Debug, Subcommand)]
pub enum DeadLetters {
    /// List dead letters, newest first
    List {
        /// Filters.
        #[command(flatten)]
        filters: EventFilters,
        /// Dead for this reason
        #[arg(long)]
        reason: Option<String>,
    },
    /// Count them by source, type and reason
    Groups,
    /// Show one
    Show {
        /// The event's id
        id: String,
    },
    /// Put dead letters back on the queue
    Replay {
        /// Their ids
        #[arg(required = true)]
        ids: Vec<String>,
    },
    /// Give dead letters up
    Discard {
        /// Their ids
        #[arg(required = true)]
        ids: Vec<String>,
        /// Why
        #[arg(long)]
        reason: String,
    },
}

/// `entities`.
#[derive(Debug, Subcommand)]
pub enum Entities {
    /// Show one entity
    Get {
        /// Its kind
        entity: String,
        /// Its key
        key: String,
    },
    /// List entities by kind and key
    List {
        /// Of this kind
        #[arg(long)]
        entity: Option<String>,
        /// Whose key starts so
        #[arg(long)]
        key_prefix: Option<String>,
        /// Only deleted, or only living ones
        #[arg(long)]
        deleted: Option<bool>,
        /// At most so many
        #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=500))]
        limit: u32,
        /// Continue after a page
        #[arg(long)]
        cursor: Option<String>,
    },
    /// Every change of one entity, newest first
    History {
        /// Its kind
        entity: String,
        /// Its key
        key: String,
        /// At most so many
        #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=500))]
        limit: u32,
        /// Continue after a page
        #[arg(long)]
        cursor: Option<String>,
    },
}

/// `presets`.
#[derive(Debug, Subcommand)]
pub enum Presets {
    /// Names and what they are for
    List,
    /// One preset as TOML one can paste
    Show {
        /// Its name
        name: String,
    },
}

/// `token`.
#[derive(Debug, Subcommand)]
pub enum Token {
    /// Make an admin token; prints it once, with the TOML line for its hash
    New {
        /// Whose it is
        #[arg(long, default_value = "ops")]
        name: String,
        /// viewer or operator
        #[arg(long, default_value = "operator", value_parser = ["viewer", "operator"])]
        role: String,
    },
}

/// `healthcheck`.
#[derive(Debug, Args)]
pub struct Healthcheck {
    /// The role's ops address [default: ops.listen of the config, else 127.0.0.1:9464]
    #[arg(long, value_name = "HOST:PORT")]
    pub address: Option<String>,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    #[test]
    fn the_definition_is_valid() {
        super::Cli::command().debug_assert();
    }
}
