//! Connections, and their way back into the pool: none gets there inside a transaction, and none is waited for for ever.

use crate::error::{is_read_only, store_error};
use crate::{ACQUIRE_TIMEOUT, TIME_LIMITS};
use oncefold_core::store::StoreError;
use sqlx::pool::PoolConnection;
use sqlx::postgres::{PgConnectOptions, PgPool, PgPoolOptions};
use sqlx::{Connection as _, Executor as _, PgConnection, Postgres, Transaction};
use std::ops::{Deref, DerefMut};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::time::timeout;

/// How long the server may take to answer what was left unanswered on a connection that is given back; then the
/// connection is dropped. The pool itself would wait until TCP gives up, a quarter of an hour, and the place is taken
/// meanwhile.
const RETURN_TIMEOUT: Duration = Duration::from_secs(5);

/// The connections of a store. Only here is the pool itself to be had.
#[derive(Clone, Debug)]
pub(crate) struct Sessions(PgPool);

impl Sessions {
    pub(crate) fn lazy(options: PgConnectOptions, max_connections: u32) -> Self {
        let pool = PgPoolOptions::new()
            .max_connections(max_connections)
            .acquire_timeout(ACQUIRE_TIMEOUT)
            .after_connect(|connection, _| Box::pin(async move { connection.execute(TIME_LIMITS).await.map(|_| ()) }))
            .connect_lazy_with(options);
        Self(pool)
    }

    /// A connection that answers.
    pub(crate) async fn take(&self) -> Result<Session, StoreError> {
        self.0.acquire().await.map(Session::on).map_err(|e| store_error(&e))
    }

    /// A connection that goes back to no pool.
    pub(crate) async fn take_for_good(&self) -> Result<PgConnection, StoreError> {
        self.0.acquire().await.map(PoolConnection::detach).map_err(|e| store_error(&e))
    }

    /// A connection that was used before, if one is free; whether it still answers is not asked.
    pub(crate) fn idle(&self) -> Option<Session> {
        self.0.try_acquire().map(Session::on)
    }

    /// Gives on what came of the work on a session. Where its server only reads, neither it nor any connection that is not
    /// in use goes on being used: after a failover the next one may lead to a server that writes.
    pub(crate) fn judged<T>(&self, session: Session, done: Result<T, StoreError>) -> Result<T, StoreError> {
        if done.as_ref().is_err_and(is_read_only) {
            let mut found = Some(session);
            while let Some(mut session) = found {
                session.is_closing = true;
                drop(session);
                found = self.idle();
            }
        }
        done
    }

    pub(crate) async fn close(&self) {
        self.0.close().await;
    }
}

/// A connection of the pool. It goes back when this is dropped.
#[derive(Debug)]
pub(crate) struct Session {
    connection: PoolConnection<Postgres>,
    /// It does not go back: `BEGIN` was sent, and its answer not seen, or it is of no use.
    is_closing: bool,
}

impl Session {
    fn on(connection: PoolConnection<Postgres>) -> Self {
        Self { connection, is_closing: false }
    }

    /// Begins a transaction. sqlx counts it from the answer on: where the caller goes away before, sqlx would not end it,
    /// and what others then write over the connection, each statement by itself, would never be committed. Such a
    /// connection is closed.
    pub(crate) async fn begin(&mut self) -> sqlx::Result<Transaction<'_, Postgres>> {
        self.is_closing = true;
        let transaction = self.connection.begin().await?;
        self.is_closing = false;
        Ok(transaction)
    }
}

impl Deref for Session {
    type Target = PgConnection;

    fn deref(&self) -> &PgConnection {
        &self.connection
    }
}

impl DerefMut for Session {
    fn deref_mut(&mut self) -> &mut PgConnection {
        &mut self.connection
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let Ok(runtime) = Handle::try_current() else {
            drop(self.connection.return_to_pool()); // closes it
            return;
        };
        if self.is_closing {
            self.connection.close_on_drop(); // within 5 s, by sqlx
        } else {
            runtime.spawn(timeout(RETURN_TIMEOUT, self.connection.return_to_pool()));
        }
    }
}
