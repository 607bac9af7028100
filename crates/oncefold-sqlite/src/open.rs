use crate::SqliteBackend;
use crate::error::store_error;
use crate::queue::Lines;
use crate::writer::Writer;
use oncefold_core::store::StoreError;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{ConnectOptions, Connection};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

/// How long SQLite itself waits for another process that writes.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
/// Connections that read: API, duties and subscriptions share them.
const READERS_MAX: u32 = 4;
/// Pages of the write-ahead log after which its content moves into the file: 32 MiB. Pages of indexes are written again
/// by every batch; the more batches pass between two such moves, the fewer bytes go to disk (measured: 28 KB an event
/// at SQLite's default of 1000 pages, 22 at 4000, 19 at 16000).
const CHECKPOINT_PAGES: &str = "8000";
/// What the writer keeps of the file in memory (negative: KiB), so that indexes are not read again by every batch.
const CACHE_KIB: &str = "-32000";

/// The write-ahead log is cut to this once it was emptied: one that grew because a reader stayed long does not stay.
const LOG_BYTES_KEPT: &str = "67108864";

impl SqliteBackend {
    /// Opens the file, which is created where it is missing; starts the writer on the present tokio runtime.
    /// `sqlite://relative.db` is relative to the working directory, `sqlite:///abs/path.db` is not. WAL, so that
    /// readers and the writer do not wait for each other; `synchronous=FULL`, so that a commit is durable.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] when the URL is none, or the file cannot be opened.
    pub async fn open(url: &str) -> Result<Self, StoreError> {
        let writing = options(url)?
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Full)
            .pragma("cache_size", CACHE_KIB)
            .pragma("wal_autocheckpoint", CHECKPOINT_PAGES)
            .pragma("journal_size_limit", LOG_BYTES_KEPT);
        make_private(writing.get_filename());
        let conn = writing.connect().await.map_err(store_error)?;
        let readers = SqlitePoolOptions::new()
            .max_connections(READERS_MAX)
            .test_before_acquire(false)
            .connect_lazy_with(options(url)?.read_only(true));
        let lines = Arc::new(Lines::default());
        Ok(Self { writer: Writer::start(conn, writing, lines.clone()), readers, lines })
    }

    /// Waits until everything asked for is committed, then closes the file. Clones answer
    /// [`StoreError::Unavailable`] from then on.
    pub async fn close(&self) {
        if let Some(conn) = self.writer.stop().await {
            self.readers.close().await;
            let _ = conn.close().await;
        }
    }
}

/// Makes a missing file, readable by its owner alone: it holds bodies. Its journals get the same mode. A link to a file
/// that is missing counts as one; a file that is there is not opened, since closing it would end SQLite's locks on it.
/// Whatever is wrong with the place is told by SQLite when it opens the file.
fn make_private(path: &Path) {
    if !path.exists() {
        let _ = std::fs::OpenOptions::new().create(true).append(true).mode(0o600).open(path);
    }
}

fn options(url: &str) -> Result<SqliteConnectOptions, StoreError> {
    let path = url.strip_prefix("sqlite://").filter(|path| !path.is_empty() && !path.contains([':', '?']));
    if path.is_none() {
        let text = "the store URL is no SQLite file: write sqlite://relative.db or sqlite:///absolute/path.db";
        return Err(StoreError::Unavailable(text.to_owned()));
    }
    let options = SqliteConnectOptions::from_str(url).map_err(store_error)?;
    Ok(options.foreign_keys(true).busy_timeout(BUSY_TIMEOUT).disable_statement_logging())
}
