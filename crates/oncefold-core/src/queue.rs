//! Ports of the queue, cut by who uses them. RabbitMQ and the embedded queue implement them alike; the suite in the
//! testkit holds them to it.

use crate::id::SourceName;
use crate::message::Message;
use async_trait::async_trait;
use std::{fmt, sync::Arc, time::Duration};
use thiserror::Error;

/// Why a publish was not confirmed. The event may still arrive later: harmless, since the database decides (P2).
#[derive(Debug, Error)]
pub enum PublishError {
    /// The queue is known to be away and nothing was sent; or its connection broke before the confirm.
    #[error("the queue is away: {0}")]
    Away(String),
    /// No confirm came in time.
    #[error("the queue did not confirm within {} ms", .0.as_millis())]
    TimedOut(Duration),
    /// The queue refused the message (nack, returned, over a limit).
    #[error("the queue refused the message: {0}")]
    Refused(String),
}

/// Why a queue operation failed.
#[derive(Debug, Error)]
pub enum QueueError {
    /// Not connected, or the connection broke; whatever was unacked comes again.
    #[error("the queue is away: {0}")]
    Away(String),
    /// The queue is there, but not as it should be; the text says what to do.
    #[error("{0}")]
    Misconfigured(String),
}

/// Where intake, the scheduler and the relay put events.
#[async_trait]
pub trait Publisher: Send + Sync {
    /// Puts the event on its source's work queue. `Ok` means durable: confirmed by the broker, or committed.
    async fn publish(&self, message: Arc<Message>) -> Result<(), PublishError>;

    /// Whether a publish made now would be tried.
    fn is_available(&self) -> bool;
}

/// One of the queues.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum QueueName {
    /// `oncefold.work.<source>`.
    Work(SourceName),
    /// `oncefold.dead`.
    Dead,
}

impl fmt::Display for QueueName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Work(source) => write!(f, "oncefold.work.{source}"),
            Self::Dead => f.write_str("oncefold.dead"),
        }
    }
}

/// How much a subscription may hold unsettled.
#[derive(Clone, Copy, Debug)]
pub struct Prefetch {
    /// Messages.
    pub messages: u16,
    /// Bytes of bodies; one message always fits.
    pub bytes: usize,
}

/// Where workers and the recorder take events from.
#[async_trait]
pub trait Consumers: Send + Sync {
    /// Starts taking from a queue, which is declared where it is missing.
    ///
    /// # Errors
    /// When the queue is away or misconfigured.
    async fn subscribe(&self, queue: QueueName, prefetch: Prefetch) -> Result<Box<dyn Subscription>, QueueError>;
}

/// A running consumer. Dropped or closed, everything unsettled goes back to the queue.
#[async_trait]
pub trait Subscription: Send {
    /// Waits for a message, then collects up to `max` until `linger` has passed since the first.
    /// Cancel-safe: messages already taken are given by the next call.
    ///
    /// # Errors
    /// When the connection broke: subscribe again.
    async fn receive(&mut self, max: usize, linger: Duration) -> Result<Vec<Received>, QueueError>;

    /// Settles messages, in the order they were received.
    ///
    /// # Errors
    /// When the connection broke: they come again.
    async fn settle(&mut self, settlements: Vec<(Tag, Settlement)>) -> Result<(), QueueError>;

    /// Stops, and gives back what is unsettled.
    async fn close(self: Box<Self>);
}

/// Names a received message within its subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tag(pub u64);

/// What becomes of a received message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settlement {
    /// Done with; forget it.
    Ack,
    /// A dead letter: to `oncefold.dead`.
    Reject,
}

/// A message as a subscription gives it.
#[derive(Debug)]
pub struct Received {
    /// For settling it.
    pub tag: Tag,
    /// The message, or why it cannot be read.
    pub message: Result<Message, Unreadable>,
    /// On `oncefold.dead`: how it came there.
    pub death: Option<Death>,
}

/// Why a message cannot be read. The text repeats nothing of it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Unreadable {
    /// None of ours: somebody else put it there, or it is damaged.
    #[error("{0}")]
    Foreign(String),
    /// A newer version wrote it, and reads it: it must not be lost.
    #[error("a newer version of Oncefold wrote it ({0}): upgrade this one")]
    Newer(String),
}

impl From<String> for Unreadable {
    fn from(why: String) -> Self {
        Self::Foreign(why)
    }
}

impl From<&str> for Unreadable {
    fn from(why: &str) -> Self {
        Self::Foreign(why.to_owned())
    }
}

/// How a message came to `oncefold.dead`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Death {
    /// A worker rejected it after recording why.
    Rejected,
    /// The broker gave it up: a suspect.
    DeliveryLimit,
}

/// What operators see of queues.
#[async_trait]
pub trait QueueAdmin: Send + Sync {
    /// Declares `oncefold.dead`, then the work queues of these sources.
    ///
    /// # Errors
    /// When the queue is away, or a queue exists with other arguments.
    async fn declare(&self, sources: &[SourceName]) -> Result<(), QueueError>;

    /// Messages waiting in each queue, of these sources and of the dead letters.
    ///
    /// # Errors
    /// When the queue is away.
    async fn depths(&self, sources: &[SourceName]) -> Result<Vec<(QueueName, u64)>, QueueError>;
}

/// The whole queue.
pub trait Queue: Publisher + Consumers + QueueAdmin {}
impl<T: Publisher + Consumers + QueueAdmin> Queue for T {}
