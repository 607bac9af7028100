//! The one writer. It owns a connection, takes whatever is pending, runs it in one transaction, commits once, and
//! then answers all; publishes alone are one statement, which is a transaction by itself. What takes long (a batch being
//! applied) has a transaction of its own, so that publishes do not wait behind more than one of those.
//!
//! Invariant: an answer leaves only after the commit that it speaks of.

mod call;
mod group;

pub(crate) use call::Running;

use self::call::{Call, Operation};
use self::group::Connection;
use crate::queue::Lines;
use oncefold_core::message::Message;
use oncefold_core::store::StoreError;
use sqlx::SqliteConnection;
use sqlx::sqlite::SqliteConnectOptions;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

/// Most operations that share a commit.
const GROUP_OPERATIONS_MAX: usize = 512;
/// Most bytes of bodies that share a commit; one message always fits.
const GROUP_BYTES_MAX: usize = 8 << 20;

/// Most bytes of messages that wait for the writer; one message always fits. A disk that is slower than the network
/// otherwise fills the memory.
const WAITING_BYTES_MAX: usize = 64 << 20;

/// A message on its way into the queue.
pub(crate) struct Publish {
    pub(crate) message: Arc<Message>,
    pub(crate) reply: oneshot::Sender<Result<(), StoreError>>,
    /// Its part of the bytes that may wait.
    _room: OwnedSemaphorePermit,
}

impl Publish {
    /// Whether somebody still waits for it; a message that nobody will hear of is not kept.
    pub(crate) fn is_wanted(&self) -> bool {
        !self.reply.is_closed()
    }
}

/// How an operation is run.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Weight {
    /// Shares a transaction.
    Light,
    /// Has a transaction of its own.
    Heavy,
    /// Makes its own transactions.
    Bare,
}

enum Request {
    Publish(Publish),
    Call(Weight, Box<dyn Operation>),
    Stop(oneshot::Sender<Option<SqliteConnection>>),
}

/// Hands operations to the writer, which ends with the last of these.
#[derive(Clone)]
pub(crate) struct Writer {
    requests: mpsc::UnboundedSender<Request>,
    /// A permit for each byte of a message that may wait.
    room: Arc<Semaphore>,
    /// Whether what was asked last could be written.
    failing: Arc<AtomicBool>,
}

impl Writer {
    /// Starts the writing task on `conn`; `options` are for another connection where that one breaks.
    pub(crate) fn start(conn: SqliteConnection, options: SqliteConnectOptions, lines: Arc<Lines>) -> Self {
        let (sender, requests) = mpsc::unbounded_channel();
        let task = Task { requests, conn: Connection::over(conn, options), lines, light: Pending::default() };
        tokio::spawn(task.run_until_dropped());
        let room = Arc::new(Semaphore::new(WAITING_BYTES_MAX));
        Self { requests: sender, room, failing: Arc::default() }
    }

    /// Runs an operation in a transaction it may share; it may be run again from the start.
    pub(crate) async fn run<P, T>(&self, params: P, work: Work<P, T>) -> Result<T, StoreError>
    where
        P: Send + Sync + 'static,
        T: Send + 'static,
    {
        self.weighed(Weight::Light, params, work).await
    }

    /// Runs an operation in a transaction of its own.
    pub(crate) async fn run_alone<P, T>(&self, params: P, work: Work<P, T>) -> Result<T, StoreError>
    where
        P: Send + Sync + 'static,
        T: Send + 'static,
    {
        self.weighed(Weight::Heavy, params, work).await
    }

    /// Runs an operation that makes its own transactions.
    pub(crate) async fn run_bare<P, T>(&self, params: P, work: Work<P, T>) -> Result<T, StoreError>
    where
        P: Send + Sync + 'static,
        T: Send + 'static,
    {
        self.weighed(Weight::Bare, params, work).await
    }

    async fn weighed<P, T>(&self, weight: Weight, params: P, work: Work<P, T>) -> Result<T, StoreError>
    where
        P: Send + Sync + 'static,
        T: Send + 'static,
    {
        let (reply, answer) = oneshot::channel();
        let after = move |outcome| {
            let _ = reply.send(outcome);
        };
        let _ = self.requests.send(Request::Call(weight, Box::new(Call::of(params, work, after))));
        self.noted(answer.await.unwrap_or_else(|_| Err(closed())))
    }

    /// Remembers whether the file takes writes.
    fn noted<T>(&self, answer: Result<T, StoreError>) -> Result<T, StoreError> {
        match &answer {
            Ok(_) => self.failing.store(false, Ordering::Relaxed),
            Err(StoreError::Unavailable(_)) => self.failing.store(true, Ordering::Relaxed),
            Err(_) => {}
        }
        answer
    }

    /// Hands over an operation that nobody waits for; `after` hears of it, unless the writer has ended.
    pub(crate) fn send<P, T>(
        &self,
        params: P,
        work: Work<P, T>,
        after: impl FnOnce(Result<T, StoreError>) + Send + 'static,
    ) where
        P: Send + Sync + 'static,
        T: Send + 'static,
    {
        let _ = self.requests.send(Request::Call(Weight::Light, Box::new(Call::of(params, work, after))));
    }

    /// Puts a message on its queue.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] where too many bytes wait already.
    pub(crate) async fn publish(&self, message: Arc<Message>) -> Result<(), StoreError> {
        let bytes = (message.body.len() + message.facts.as_str().len()).min(WAITING_BYTES_MAX);
        let room = self.room.clone().try_acquire_many_owned(u32::try_from(bytes).unwrap_or(u32::MAX));
        let room = room.map_err(|_| crowded())?;
        let (reply, answer) = oneshot::channel();
        let _ = self.requests.send(Request::Publish(Publish { message, reply, _room: room }));
        self.noted(answer.await.unwrap_or_else(|_| Err(closed())))
    }

    /// Whether there is a writer, and the file took what was last asked of it. Duties write every few seconds, so that
    /// this mends without a delivery.
    pub(crate) fn is_working(&self) -> bool {
        !self.requests.is_closed() && !self.failing.load(Ordering::Relaxed)
    }

    /// Ends the writer after what was handed over before.
    pub(crate) async fn stop(&self) -> Option<SqliteConnection> {
        let (reply, answer) = oneshot::channel();
        let _ = self.requests.send(Request::Stop(reply));
        answer.await.ok().flatten()
    }
}

/// What an operation does with the connection.
pub(crate) type Work<P, T> = for<'c> fn(&'c mut SqliteConnection, &'c P) -> Running<'c, T>;

/// There is no writer any more.
pub(crate) fn closed() -> StoreError {
    StoreError::Unavailable("the file is closed".to_owned())
}

fn crowded() -> StoreError {
    let most = WAITING_BYTES_MAX >> 20;
    StoreError::Unavailable(format!("{most} MiB of messages wait to be written: the disk is slower than what comes in"))
}

#[derive(Default)]
struct Pending {
    publishes: Vec<Publish>,
    bytes: usize,
    calls: Vec<Box<dyn Operation>>,
    heavy: VecDeque<(Weight, Box<dyn Operation>)>,
    stop: Option<oneshot::Sender<Option<SqliteConnection>>>,
}

impl Pending {
    fn add(&mut self, request: Request) {
        match request {
            Request::Publish(publish) => {
                self.bytes += publish.message.body.len();
                self.publishes.push(publish);
            }
            Request::Call(Weight::Light, call) => self.calls.push(call),
            Request::Call(weight, call) => self.heavy.push_back((weight, call)),
            Request::Stop(reply) => self.stop = Some(reply),
        }
    }

    fn is_full(&self) -> bool {
        self.publishes.len() + self.calls.len() >= GROUP_OPERATIONS_MAX
            || self.bytes >= GROUP_BYTES_MAX
            || self.stop.is_some()
    }
}

struct Task {
    requests: mpsc::UnboundedReceiver<Request>,
    conn: Connection,
    lines: Arc<Lines>,
    light: Pending,
}

impl Task {
    async fn run_until_dropped(mut self) {
        loop {
            if self.light.heavy.is_empty() && self.light.stop.is_none() {
                let Some(request) = self.requests.recv().await else { return };
                self.light.add(request);
                // Whoever was woken by the last commit may be about to ask again: let it join.
                tokio::task::yield_now().await;
            }
            while !self.light.is_full()
                && let Ok(request) = self.requests.try_recv()
            {
                self.light.add(request);
            }
            self.commit_light().await;
            match self.light.heavy.pop_front() {
                Some((Weight::Bare, call)) => self.conn.run_bare(call).await,
                Some((_, call)) => self.conn.commit_alone(call).await,
                None => {}
            }
            if self.light.heavy.is_empty()
                && let Some(reply) = self.light.stop.take()
            {
                let _ = reply.send(self.conn.into_inner());
                return;
            }
        }
    }

    async fn commit_light(&mut self) {
        let publishes = std::mem::take(&mut self.light.publishes);
        let calls = std::mem::take(&mut self.light.calls);
        self.light.bytes = 0;
        if publishes.is_empty() && calls.is_empty() {
            return;
        }
        let lines = self.lines.clone();
        self.conn.commit(publishes, calls, &lines).await;
    }
}
