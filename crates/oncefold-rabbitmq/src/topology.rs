//! The queues, and their declaration.

use crate::connect::OPERATION_TIMEOUT;
use lapin::options::QueueDeclareOptions;
use lapin::protocol::{AMQPErrorKind, AMQPSoftError};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{Channel, Connection, ErrorKind};
use oncefold_core::SourceName;
use oncefold_core::limits::DELIVERY_LIMIT;
use oncefold_core::queue::{QueueError, QueueName};
use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};
use std::{future::Future, time::Duration};
use tokio::sync::Notify;
use tokio::time::timeout;

/// The sources whose queues are declared again on every connection, so that one an operator deleted comes back.
#[derive(Default)]
pub(crate) struct Topology {
    known: Mutex<BTreeSet<SourceName>>,
    /// Rung when a publish found its queue missing.
    pub(crate) missing: Notify,
}

impl Topology {
    pub(crate) fn remember<'a>(&self, sources: impl IntoIterator<Item = &'a SourceName>) {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).extend(sources.into_iter().cloned());
    }

    /// Declares every queue that is known, `oncefold.dead` first: a letter whose dead queue is missing waits three
    /// minutes for the broker's next try.
    pub(crate) async fn declare_known(&self, connection: &Connection) -> Result<(), QueueError> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner).clone();
        declare(connection, std::iter::once(QueueName::Dead).chain(known.into_iter().map(QueueName::Work))).await
    }
}

/// Declares these queues. One that cannot be does not keep the others from it; the first trouble is returned.
pub(crate) async fn declare(
    connection: &Connection,
    queues: impl IntoIterator<Item = QueueName>,
) -> Result<(), QueueError> {
    let mut channel = open_channel(connection).await?;
    let mut trouble = None;
    for queue in queues {
        match declare_queue(&channel, &queue).await {
            Ok(()) => {}
            Err(QueueError::Misconfigured(text)) => {
                trouble.get_or_insert(QueueError::Misconfigured(text));
                channel = open_channel(connection).await?; // the broker closes it with the refusal
            }
            Err(away) => return Err(away),
        }
    }
    trouble.map_or(Ok(()), Err)
}

pub(crate) async fn open_channel(connection: &Connection) -> Result<Channel, QueueError> {
    bounded("open a channel", connection.create_channel()).await
}

async fn declare_queue(channel: &Channel, queue: &QueueName) -> Result<(), QueueError> {
    let options = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
    let declared = channel.queue_declare(queue.to_string().into(), options, arguments(queue));
    bounded(&format!("declare the queue {queue}"), declared).await.map(|_| ())
}

/// The arguments, the same on RabbitMQ 3.10 and 4: a queue made by one is accepted by the other after an upgrade.
fn arguments(queue: &QueueName) -> FieldTable {
    let text = |value: &str| AMQPValue::LongString(value.into());
    let mut arguments = FieldTable::default();
    arguments.insert("x-queue-type".into(), text("quorum"));
    // Refusing beats dropping: a queue that is full (by a policy) nacks, the dead one keeps the letter where it is.
    arguments.insert("x-overflow".into(), text("reject-publish"));
    match queue {
        QueueName::Work(_) => {
            arguments.insert("x-dead-letter-exchange".into(), text(""));
            arguments.insert("x-dead-letter-routing-key".into(), text(&QueueName::Dead.to_string()));
            // The default, at-most-once, drops letters while the dead queue is missing.
            arguments.insert("x-dead-letter-strategy".into(), text("at-least-once"));
            arguments.insert("x-delivery-limit".into(), AMQPValue::LongLongInt(DELIVERY_LIMIT.into()));
        }
        // Nothing is behind the dead queue: a letter past its limit would be gone. RabbitMQ 4 sets a limit of 20 where
        // none is stated; -1 lifts it there, but 3.x refuses a negative one. A limit that nobody reaches does for both.
        QueueName::Dead => {
            arguments.insert("x-delivery-limit".into(), AMQPValue::LongLongInt(i32::MAX.into()));
        }
    }
    arguments
}

/// Runs one operation with a time limit. `what` completes "could not …".
pub(crate) async fn bounded<T>(what: &str, operation: impl Future<Output = lapin::Result<T>>) -> Result<T, QueueError> {
    bounded_by(OPERATION_TIMEOUT, what, operation).await
}

pub(crate) async fn bounded_by<T>(
    limit: Duration,
    what: &str,
    operation: impl Future<Output = lapin::Result<T>>,
) -> Result<T, QueueError> {
    match timeout(limit, operation).await {
        Ok(Ok(done)) => Ok(done),
        Ok(Err(error)) => Err(explained(what, &error)),
        Err(_) => Err(QueueError::Away(format!("could not {what} within {} s", limit.as_secs()))),
    }
}

fn explained(what: &str, error: &lapin::Error) -> QueueError {
    match soft_error(error) {
        Some(AMQPSoftError::PRECONDITIONFAILED) => QueueError::Misconfigured(format!(
            "could not {what}: it exists with other arguments ({error}). Let it run empty or move its messages, delete \
             it (`rabbitmqctl delete_queue --vhost VHOST NAME`), and it is declared again as it must be"
        )),
        Some(AMQPSoftError::ACCESSREFUSED) => QueueError::Misconfigured(format!(
            "could not {what}: {error}. Grant the user (`rabbitmqctl set_permissions -p VHOST USER CONF WRITE READ`): \
             configure `^oncefold\\.`, write `^(oncefold\\.|amq\\.default$)`, read `^oncefold\\.`"
        )),
        Some(AMQPSoftError::RESOURCELOCKED) => {
            QueueError::Misconfigured(format!("could not {what}: {error}. Something else holds it; find it and end it"))
        }
        _ => QueueError::Away(format!("could not {what}: {error}")),
    }
}

/// What the broker said as it closed the channel, if it did.
pub(crate) fn soft_error(error: &lapin::Error) -> Option<AMQPSoftError> {
    match error.kind() {
        ErrorKind::ProtocolError(error) => match error.kind() {
            AMQPErrorKind::Soft(soft) => Some(soft.clone()),
            AMQPErrorKind::Hard(_) => None,
        },
        _ => None,
    }
}
