//! The queue as a whole.

use crate::consuming::Consuming;
use crate::lane::Work;
use crate::publishing::Publishing;
use crate::settings::{RabbitSettings, parse_url};
use crate::supervise::keep_connected;
use crate::topology::Topology;
use async_trait::async_trait;
use oncefold_core::queue::{
    Consumers, Prefetch, PublishError, Publisher, QueueAdmin, QueueError, QueueName, Subscription,
};
use oncefold_core::{Message, SourceName};
use std::{fmt, sync::Arc};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// The queue on RabbitMQ: two supervised connections, one that publishes and one that consumes. Dropped, it closes them
/// in the background.
pub struct RabbitQueue {
    publishing: Arc<Publishing>,
    consuming: Arc<Consuming>,
    stop: CancellationToken,
    tasks: TaskTracker,
}

impl fmt::Debug for RabbitQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RabbitQueue").field("available", &self.is_available()).finish_non_exhaustive()
    }
}

impl RabbitQueue {
    /// Starts connecting, on the present Tokio runtime, and returns at once: a broker that is away is waited for in the
    /// background, and until it is there every operation says `Away`.
    ///
    /// # Errors
    /// When the URL is malformed.
    pub fn start(settings: RabbitSettings) -> Result<Arc<Self>, QueueError> {
        let uri = parse_url(&settings.url)?;
        let topology = Arc::new(Topology::default());
        let publishing = Arc::new(Publishing::over(topology.clone(), &settings));
        let queue = Self {
            consuming: Arc::new(Consuming::over(topology, publishing.clone())),
            publishing,
            stop: CancellationToken::new(),
            tasks: TaskTracker::new(),
        };
        let (role, address, stop) = (queue.publishing.clone(), uri.clone(), queue.stop.clone());
        queue.tasks.spawn(async move { keep_connected(&*role, &address, &stop).await });
        let (role, stop) = (queue.consuming.clone(), queue.stop.clone());
        queue.tasks.spawn(async move { keep_connected(&*role, &uri, &stop).await });
        queue.tasks.close();
        Ok(Arc::new(queue))
    }

    /// Stops taking publishes, waits for the confirms under way, at most `confirm_timeout`, and closes both connections.
    /// Subscriptions end; what they hold unsettled goes back.
    pub async fn close(&self) {
        self.stop.cancel();
        self.tasks.wait().await;
    }
}

impl Drop for RabbitQueue {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

#[async_trait]
impl Publisher for RabbitQueue {
    async fn publish(&self, message: Arc<Message>) -> Result<(), PublishError> {
        self.publishing.publish(Work::Event(message)).await
    }

    fn is_available(&self) -> bool {
        self.publishing.health.is_ready()
    }
}

#[async_trait]
impl Consumers for RabbitQueue {
    async fn subscribe(&self, queue: QueueName, prefetch: Prefetch) -> Result<Box<dyn Subscription>, QueueError> {
        Ok(Box::new(self.consuming.subscribe(queue, prefetch).await?))
    }
}

#[async_trait]
impl QueueAdmin for RabbitQueue {
    async fn declare(&self, sources: &[SourceName]) -> Result<(), QueueError> {
        self.consuming.declare(sources).await
    }

    async fn depths(&self, sources: &[SourceName]) -> Result<Vec<(QueueName, u64)>, QueueError> {
        self.consuming.depths(sources).await
    }
}
