//! The connection that consumes and looks after queues. Nothing is published on it, so the broker never blocks it.

use crate::publishing::Publishing;
use crate::subscription::RabbitSubscription;
use crate::supervise::{Notice, Notices, Role};
use crate::topology::{self, Topology, bounded, open_channel};
use lapin::options::QueueDeclareOptions;
use lapin::protocol::AMQPSoftError;
use lapin::types::FieldTable;
use lapin::{Channel, Connection};
use oncefold_core::SourceName;
use oncefold_core::queue::{Prefetch, QueueError, QueueName};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

/// Missing queues are declared again at most so often.
const MEND_PAUSE: Duration = Duration::from_secs(1);

/// The consuming half of the queue.
pub(crate) struct Consuming {
    topology: Arc<Topology>,
    /// Publishes letters of single events of a group.
    publishing: Arc<Publishing>,
    connection: RwLock<Result<Arc<Connection>, String>>,
}

impl Consuming {
    pub(crate) fn over(topology: Arc<Topology>, publishing: Arc<Publishing>) -> Self {
        Self { topology, publishing, connection: RwLock::new(Err("not connected yet".to_owned())) }
    }

    fn connection(&self) -> Result<Arc<Connection>, QueueError> {
        self.connection.read().unwrap_or_else(PoisonError::into_inner).clone().map_err(QueueError::Away)
    }

    fn set(&self, connection: Result<Arc<Connection>, String>) {
        *self.connection.write().unwrap_or_else(PoisonError::into_inner) = connection;
    }

    pub(crate) async fn declare(&self, sources: &[SourceName]) -> Result<(), QueueError> {
        self.topology.remember(sources); // even while the broker is away: declared as soon as it is there
        let queues = sources.iter().cloned().map(QueueName::Work);
        topology::declare(&*self.connection()?, std::iter::once(QueueName::Dead).chain(queues)).await
    }

    pub(crate) async fn subscribe(
        &self,
        queue: QueueName,
        prefetch: Prefetch,
    ) -> Result<RabbitSubscription, QueueError> {
        let connection = self.connection()?;
        if let QueueName::Work(source) = &queue {
            self.topology.remember([source]);
        }
        topology::declare(&connection, [QueueName::Dead, queue.clone()]).await?;
        let channel = open_channel(&connection).await?;
        RabbitSubscription::start(channel, queue, prefetch, self.publishing.clone()).await
    }

    pub(crate) async fn depths(&self, sources: &[SourceName]) -> Result<Vec<(QueueName, u64)>, QueueError> {
        let connection = self.connection()?;
        let mut channel = open_channel(&connection).await?;
        let mut depths = Vec::with_capacity(sources.len() + 1);
        for queue in sources.iter().cloned().map(QueueName::Work).chain([QueueName::Dead]) {
            let depth = match depth(&channel, &queue).await? {
                Some(messages) => messages,
                None => {
                    channel = open_channel(&connection).await?; // the broker closes it over a missing queue
                    0
                }
            };
            depths.push((queue, depth));
        }
        Ok(depths)
    }

    async fn follow(&self, connection: &Arc<Connection>) -> String {
        let mut notices = Notices::of(connection);
        loop {
            tokio::select! {
                notice = notices.next() => match notice {
                    Notice::Lost(why) => return why,
                    Notice::Blocked(_) | Notice::Unblocked => {}
                },
                () = self.topology.missing.notified() => {
                    tracing::warn!("a work queue was missing; declaring all of them again");
                    if let Err(error) = self.topology.declare_known(connection).await {
                        tracing::error!("{error}");
                    }
                    // A loss in the meantime is still there to be seen afterwards.
                    sleep(MEND_PAUSE).await;
                }
            }
        }
    }
}

/// Messages waiting in a queue; none where there is no such queue, and then the channel is closed.
async fn depth(channel: &Channel, queue: &QueueName) -> Result<Option<u64>, QueueError> {
    let passive = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
    let looked = async {
        match channel.queue_declare(queue.to_string().into(), passive, FieldTable::default()).await {
            Ok(found) => Ok(Some(u64::from(found.message_count()))),
            Err(error) if topology::soft_error(&error) == Some(AMQPSoftError::NOTFOUND) => Ok(None),
            Err(error) => Err(error),
        }
    };
    bounded(&format!("look at the queue {queue}"), looked).await
}

impl Role for Consuming {
    const NAME: &'static str = "consumer";

    async fn serve(&self, connection: &Arc<Connection>, stop: &CancellationToken) -> String {
        // First, so that a source that is told meanwhile is either known here below or declared by who tells.
        self.set(Ok(connection.clone()));
        match self.topology.declare_known(connection).await {
            Ok(()) => {}
            Err(QueueError::Misconfigured(text)) => tracing::error!("{text}"),
            Err(QueueError::Away(why)) => return why,
        }
        tokio::select! {
            () = stop.cancelled() => "it was closed".to_owned(),
            why = self.follow(connection) => why,
        }
    }

    fn is_down(&self, why: &str) {
        self.set(Err(why.to_owned()));
    }
}

/// Closes a channel, which gives back what is unsettled on it.
pub(crate) async fn close_channel(channel: &Channel) {
    let _ = timeout(crate::connect::OPERATION_TIMEOUT, channel.close(200, "OK".into())).await; // it may be closed already
}
