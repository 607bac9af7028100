//! The backends, chosen once: sqlite + embedded, or postgres + amqp.

use crate::failure::Failure;
use anyhow::Context as _;
use oncefold_config::{Config, QueueUrl, StoreUrl};
use oncefold_core::queue::Queue;
use oncefold_core::store::{SpoolStore, Store, StoreError};
use oncefold_postgres::PostgresStore;
use oncefold_rabbitmq::{RabbitQueue, RabbitSettings};
use oncefold_sqlite::SqliteBackend;
use std::sync::Arc;
use std::time::Duration;

/// Connections to PostgreSQL a process may open.
const POSTGRES_CONNECTIONS: u32 = 16;
/// Channels that publish.
const PUBLISH_CHANNELS: usize = 2;
/// How long a starting role waits for a database that is away.
const DATABASE_WAIT_MAX: Duration = Duration::from_secs(30);
const DATABASE_POLL: Duration = Duration::from_millis(500);

/// The database.
#[derive(Clone)]
pub enum Database {
    /// Store and queue in one file.
    Sqlite(SqliteBackend),
    /// The store of a fleet.
    Postgres(PostgresStore),
}

impl Database {
    /// Opens the file, or prepares connections to the server, which need not be there yet.
    ///
    /// # Errors
    /// When the file cannot be opened, or the URL cannot be used.
    pub async fn open(config: &Config) -> Result<Self, Failure> {
        match &config.store {
            StoreUrl::Sqlite(path) => {
                let opened = SqliteBackend::open(&config.store.to_string()).await;
                Ok(Self::Sqlite(opened.with_context(|| format!("cannot open {}", path.display()))?))
            }
            StoreUrl::Postgres(url) => {
                let store = PostgresStore::connect_lazy(url.expose_url(), POSTGRES_CONNECTIONS);
                store.map(Self::Postgres).map_err(|e| Failure::config(format!("store.url: {e}")))
            }
        }
    }

    /// The ports of the store.
    pub fn store(&self) -> Arc<dyn Store> {
        match self {
            Self::Sqlite(backend) => Arc::new(backend.clone()),
            Self::Postgres(store) => Arc::new(store.clone()),
        }
    }

    /// Batches of a source worth writing at once.
    pub const fn writers(&self) -> usize {
        match self {
            Self::Sqlite(_) => 1,
            Self::Postgres(_) => 2,
        }
    }

    /// The spool, which only a store beside a broker has.
    pub fn spool(&self) -> Option<Arc<dyn SpoolStore>> {
        match self {
            Self::Sqlite(_) => None,
            Self::Postgres(store) => Some(Arc::new(store.clone())),
        }
    }

    /// Brings the schema up to date.
    ///
    /// # Errors
    /// When the database is away, or a migration fails.
    pub async fn migrate(&self) -> Result<(), StoreError> {
        match self {
            Self::Sqlite(backend) => backend.migrate().await,
            Self::Postgres(store) => store.migrate().await,
        }
    }

    /// Migrations that this binary has and the database has not, or the other way round.
    ///
    /// # Errors
    /// When the database is away.
    pub async fn pending_migrations(&self) -> Result<Vec<String>, StoreError> {
        match self {
            Self::Sqlite(backend) => backend.pending_migrations().await,
            Self::Postgres(store) => store.pending_migrations().await,
        }
    }

    /// Closes its connections.
    pub async fn close(&self) {
        match self {
            Self::Sqlite(backend) => backend.close().await,
            Self::Postgres(store) => store.close().await,
        }
    }

    /// Makes sure that the schema is the one this binary works with. A file of our own is brought up to date; a
    /// server's schema is its operator's to migrate.
    ///
    /// # Errors
    /// When the schema is behind or ahead (a config failure), or the database stays away.
    pub async fn require_schema(&self) -> Result<(), Failure> {
        if let Self::Sqlite(_) = self {
            self.migrate().await.context("the database file cannot be brought up to date")?;
        }
        let pending = self.wait().await?;
        if pending.is_empty() {
            return Ok(());
        }
        Err(Failure::config(pending.join("; ")))
    }

    /// Waits for a database that is away; then tells what is pending.
    async fn wait(&self) -> Result<Vec<String>, Failure> {
        let deadline = tokio::time::Instant::now() + DATABASE_WAIT_MAX;
        let mut told = false;
        loop {
            let error = match self.pending_migrations().await {
                Ok(pending) => return Ok(pending),
                Err(error) => error,
            };
            if tokio::time::Instant::now() > deadline {
                return Err(Failure::Run(anyhow::Error::new(error).context("the database stays away")));
            }
            if !told {
                tracing::warn!(%error, "waiting for the database");
                told = true;
            }
            tokio::time::sleep(DATABASE_POLL).await;
        }
    }
}

/// The queue beside a database.
pub struct Broker {
    /// Its ports.
    pub queue: Arc<dyn Queue>,
    rabbit: Option<Arc<RabbitQueue>>,
}

impl Broker {
    /// Starts the queue that belongs to the database. A broker need not be there yet.
    ///
    /// # Errors
    /// When the URL cannot be used.
    pub fn start(config: &Config, database: &Database) -> Result<Self, Failure> {
        match (&config.queue, database) {
            (QueueUrl::Embedded, Database::Sqlite(backend)) => {
                Ok(Self { queue: Arc::new(backend.clone()), rabbit: None })
            }
            (QueueUrl::Amqp(url), _) => {
                let settings = RabbitSettings {
                    url: url.expose_url().into(),
                    confirm_timeout: config.ingest.confirm_timeout,
                    publish_channels: PUBLISH_CHANNELS,
                    group_max: oncefold_rabbitmq::GROUP_EVENTS_MAX,
                };
                let rabbit = RabbitQueue::start(settings).map_err(|e| Failure::config(format!("queue.url: {e}")))?;
                Ok(Self { queue: Arc::clone(&rabbit) as Arc<dyn Queue>, rabbit: Some(rabbit) })
            }
            (QueueUrl::Embedded, Database::Postgres(_)) => {
                Err(Failure::config("queue.url: \"embedded\" goes with a sqlite store; set an amqp:// URL"))
            }
        }
    }

    /// Closes its connections.
    pub async fn close(&self) {
        if let Some(rabbit) = &self.rabbit {
            rabbit.close().await;
        }
    }
}
