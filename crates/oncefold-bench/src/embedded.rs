//! Looking into a SQLite file beside the process that works on it.

use anyhow::{Context as _, Result};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions as _, SqliteConnection};
use std::path::Path;

/// A connection that only reads.
pub async fn reader(file: &Path) -> Result<SqliteConnection> {
    let options = SqliteConnectOptions::new().filename(file).read_only(true).disable_statement_logging();
    options.connect().await.with_context(|| format!("cannot read {}", file.display()))
}
