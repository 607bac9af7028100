//! The only PostgreSQL SQL: every port of [`oncefold_core::store`], and the spool.
//!
//! Invariant: each method is one transaction of few set-based statements; rows are locked in one order (events by id,
//! entities by entity and key), so that writers do not deadlock; a value of a row never gets into an error's text.

mod act;
mod apply;
mod convert;
mod duty;
mod error;
mod migrate;
mod read;
mod rejected;
mod rules;
mod schedule;
mod session;
mod spool;
mod trial;

use async_trait::async_trait;
use error::store_error;
use oncefold_core::store::{Probe, StoreError};
use session::Sessions;
use sqlx::ConnectOptions as _;
use sqlx::postgres::PgConnectOptions;
use std::time::Duration;

/// How long a caller waits for a connection before the database counts as away.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(2);
/// How long one probe may take: a frozen server accepts connections and never answers.
const PING_TIMEOUT: Duration = Duration::from_secs(2);
/// A process that is frozen inside a transaction may not hold everybody's rows for ever, nor a statement that hangs its
/// worker. Waiting for a lock ends sooner, so that the error says which of the two it was. Migrations and retention lift
/// the limit on statements. Set by statements: pooling proxies do not pass startup options on.
const TIME_LIMITS: &str = "SET idle_in_transaction_session_timeout = '60s';
                           SET statement_timeout = '30s';
                           SET lock_timeout = '20s'";

/// The store on PostgreSQL 15 or later. Clones share one pool of connections.
#[derive(Clone, Debug)]
pub struct PostgresStore {
    sessions: Sessions,
}

impl PostgresStore {
    /// Connects, at most `max_connections` at once; TLS as the URL's `sslmode` says.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] where the URL is none or the database cannot be reached within 2 s.
    pub async fn connect(url: &str, max_connections: u32) -> Result<Self, StoreError> {
        let store = Self::connect_lazy(url, max_connections)?;
        store.sessions.take().await?;
        Ok(store)
    }

    /// As [`Self::connect`], but the first use connects: a process can start while its database is away.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] where the URL is none; its text does not repeat the URL, which may hold a password.
    pub fn connect_lazy(url: &str, max_connections: u32) -> Result<Self, StoreError> {
        // sqlx itself takes any scheme.
        let ours = ["postgres://", "postgresql://"].iter().any(|scheme| url.starts_with(scheme));
        let options = url.parse::<PgConnectOptions>().ok().filter(|_| ours).ok_or_else(|| {
            StoreError::Unavailable(
                "the store's URL is not one of PostgreSQL's; write postgres://user:password@host:port/database, special \
                 characters percent-encoded"
                    .to_owned(),
            )
        })?;
        let options = options.application_name("oncefold").disable_statement_logging();
        Ok(Self { sessions: Sessions::lazy(options, max_connections) })
    }

    /// Closes every connection, waiting for those in use.
    pub async fn close(&self) {
        self.sessions.close().await;
    }
}

#[async_trait]
impl Probe for PostgresStore {
    async fn ping(&self) -> Result<(), StoreError> {
        // Touches the schema: a database that is there but not ours is of no use.
        let probe = async {
            let mut session = self.sessions.take().await?;
            let read_only = sqlx::query_scalar!(
                r#"SELECT current_setting('transaction_read_only') = 'on' AS "read_only!" FROM rules_version"#
            )
            .fetch_one(&mut *session)
            .await
            .map_err(|e| store_error(&e))?;
            self.sessions.judged(session, error::writable(read_only))
        };
        match tokio::time::timeout(PING_TIMEOUT, probe).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(e)) => Err(match e {
                unavailable @ StoreError::Unavailable(_) => unavailable,
                other => StoreError::Unavailable(other.to_string()),
            }),
            Err(_) => Err(StoreError::Unavailable(format!("no answer within {} s", PING_TIMEOUT.as_secs()))),
        }
    }
}
