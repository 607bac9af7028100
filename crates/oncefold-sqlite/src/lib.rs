//! SQLite as store *and* durable queue, in one file.
//!
//! One task writes (see [`writer`]): whatever is pending goes into one transaction with one commit, so that the cost
//! of a durable commit is shared. Readers have connections of their own, which WAL never blocks.
//!
//! Invariant: nothing is kept in memory that another process may change in the file; only what this process holds
//! unsettled is, and that ends with it.

mod act;
mod apply;
mod duty;
mod error;
mod open;
mod queue;
mod read;
mod rejected;
mod rows;
mod rules;
mod schedule;
mod schema;
mod trial;
mod writer;

use crate::queue::Lines;
use crate::writer::Writer;
use async_trait::async_trait;
use oncefold_core::store::{Probe, StoreError};
use sqlx::SqlitePool;
use std::fmt;
use std::sync::Arc;

/// An open database file. Clones share its writer, its readers and what is held of its queues.
#[derive(Clone)]
pub struct SqliteBackend {
    writer: Writer,
    readers: SqlitePool,
    lines: Arc<Lines>,
}

impl fmt::Debug for SqliteBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteBackend").finish_non_exhaustive()
    }
}

#[async_trait]
impl Probe for SqliteBackend {
    /// Commits a write that changes nothing: reading would succeed on a full disk, on which no work does.
    async fn ping(&self) -> Result<(), StoreError> {
        self.writer.run((), |conn, ()| Box::pin(duty::touch(conn))).await
    }
}

#[cfg(test)]
mod tests;
