use super::call::Operation;
use super::{Publish, closed};
use crate::error::store_error;
use crate::queue::{self, Lines};
use oncefold_core::store::StoreError;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, SqliteConnection};

/// What became of a group that was committed.
struct Committed {
    /// The sequence of the first.
    published: Result<Option<i64>, StoreError>,
    called: Vec<Result<(), StoreError>>,
}

/// Why a group was not committed. Nothing of it was.
enum GroupFailure {
    /// The file cannot be written, which is no operation's fault.
    Away(StoreError),
    /// One operation ended the transaction of all, as a trigger may (`RAISE(ROLLBACK, …)`).
    Broken,
}

/// The writing connection, replaced where it breaks.
pub(super) struct Connection {
    conn: Option<SqliteConnection>,
    options: SqliteConnectOptions,
}

impl Connection {
    pub(super) const fn over(conn: SqliteConnection, options: SqliteConnectOptions) -> Self {
        Self { conn: Some(conn), options }
    }

    pub(super) fn into_inner(self) -> Option<SqliteConnection> {
        self.conn
    }

    /// Runs publishes and operations with one commit, and answers them all.
    pub(super) async fn commit(
        &mut self,
        mut publishes: Vec<Publish>,
        mut calls: Vec<Box<dyn Operation>>,
        lines: &Lines,
    ) {
        if publishes.is_empty()
            && let [_] = &calls[..]
            && let Some(call) = calls.pop()
        {
            return self.commit_alone(call).await;
        }
        match self.try_group(&mut publishes, &mut calls).await {
            Ok(Committed { published, called }) => {
                answer_publishes(publishes, &published, lines);
                for (call, outcome) in calls.into_iter().zip(called) {
                    call.answer(outcome);
                }
            }
            Err(GroupFailure::Away(error)) => {
                answer_publishes(publishes, &Err(error.clone()), lines);
                for call in calls {
                    call.answer(Err(error.clone()));
                }
            }
            Err(GroupFailure::Broken) => {
                let published = match self.try_group(&mut publishes, &mut []).await {
                    Ok(committed) => committed.published,
                    Err(GroupFailure::Away(error)) => Err(error),
                    Err(GroupFailure::Broken) => Err(broken()),
                };
                answer_publishes(publishes, &published, lines);
                for call in calls {
                    self.commit_alone(call).await;
                }
            }
        }
    }

    /// Runs one operation in a transaction of its own, and answers it.
    pub(super) async fn commit_alone(&mut self, mut call: Box<dyn Operation>) {
        let outcome = async {
            let conn = self.begin().await?;
            call.run(conn).await?;
            statement(conn, "COMMIT").await
        };
        let outcome = outcome.await;
        if outcome.is_err() {
            self.roll_back().await;
        }
        call.answer(outcome);
    }

    /// Runs an operation that makes its own transactions, and answers it.
    pub(super) async fn run_bare(&mut self, mut call: Box<dyn Operation>) {
        let outcome = match self.open().await {
            Ok(conn) => call.run(conn).await,
            Err(error) => Err(error),
        };
        if outcome.is_err() {
            self.roll_back().await;
        }
        call.answer(outcome);
    }

    async fn try_group(
        &mut self,
        publishes: &mut Vec<Publish>,
        calls: &mut [Box<dyn Operation>],
    ) -> Result<Committed, GroupFailure> {
        let committed = self.run_group(publishes, calls).await;
        if committed.is_err() {
            self.roll_back().await;
        }
        committed
    }

    async fn run_group(
        &mut self,
        publishes: &mut Vec<Publish>,
        calls: &mut [Box<dyn Operation>],
    ) -> Result<Committed, GroupFailure> {
        // Publishes alone are one statement, which is a transaction by itself: one way to the file instead of three.
        let is_statement = calls.is_empty();
        let conn = if is_statement { self.open().await } else { self.begin().await }.map_err(GroupFailure::Away)?;
        publishes.retain(Publish::is_wanted);
        let published = match queue::insert(conn, publishes).await {
            Err(error @ StoreError::Unavailable(_)) => return Err(GroupFailure::Away(error)),
            outcome => outcome,
        };
        let mut called = Vec::with_capacity(calls.len());
        for call in calls {
            called.push(run_apart(conn, call.as_mut()).await?);
        }
        if !is_statement {
            statement(conn, "COMMIT").await.map_err(GroupFailure::Away)?;
        }
        Ok(Committed { published, called })
    }

    async fn open(&mut self) -> Result<&mut SqliteConnection, StoreError> {
        if self.conn.is_none() {
            self.conn = Some(self.options.connect().await.map_err(store_error)?);
        }
        self.conn.as_mut().ok_or_else(closed)
    }

    /// Takes the write lock, waiting for another process as long as the busy timeout.
    async fn begin(&mut self) -> Result<&mut SqliteConnection, StoreError> {
        let conn = self.open().await?;
        statement(conn, "BEGIN IMMEDIATE").await?;
        Ok(conn)
    }

    /// Ends a failed transaction, or the connection if even that fails. "No transaction is active" says that SQLite
    /// has rolled it back itself, as it does after some faults.
    async fn roll_back(&mut self) {
        let Some(conn) = self.conn.as_mut() else { return };
        match statement(conn, "ROLLBACK").await {
            Ok(()) => {}
            Err(StoreError::Failed(text)) if text.contains("no transaction is active") => {}
            Err(error) => {
                tracing::warn!(%error, "opening the database file again");
                self.conn = None;
            }
        }
    }
}

/// Runs an operation so that its failure leaves the others of the transaction as they are.
async fn run_apart(
    conn: &mut SqliteConnection,
    call: &mut dyn Operation,
) -> Result<Result<(), StoreError>, GroupFailure> {
    statement(conn, "SAVEPOINT operation").await.map_err(GroupFailure::Away)?;
    let outcome = call.run(conn).await;
    if let Err(error @ StoreError::Unavailable(_)) = outcome {
        return Err(GroupFailure::Away(error));
    }
    if outcome.is_err() && statement(conn, "ROLLBACK TO operation").await.is_err() {
        return Err(GroupFailure::Broken);
    }
    statement(conn, "RELEASE operation").await.map_err(|_| GroupFailure::Broken)?;
    Ok(outcome)
}

async fn statement(conn: &mut SqliteConnection, sql: &'static str) -> Result<(), StoreError> {
    sqlx::query(sql).execute(conn).await.map(|_| ()).map_err(store_error)
}

fn broken() -> StoreError {
    StoreError::Failed("a trigger on the queue ended the transaction".to_owned())
}

fn answer_publishes(publishes: Vec<Publish>, outcome: &Result<Option<i64>, StoreError>, lines: &Lines) {
    if let Ok(Some(first)) = outcome {
        lines.published(*first, publishes.iter().map(|publish| &publish.message.source));
    }
    for publish in publishes {
        let _ = publish.reply.send(outcome.clone().map(|_| ()));
    }
}
