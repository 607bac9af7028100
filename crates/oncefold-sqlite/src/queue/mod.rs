//! The durable queue: a table whose rows are messages. What this process holds unsettled is known in memory only.

mod lines;
mod publish;
mod settle;
mod subscription;

pub(crate) use lines::{HeldRow, Lines};
pub(crate) use publish::insert;
pub(crate) use settle::delete;

use self::subscription::SqliteSubscription;
use crate::SqliteBackend;
use crate::error::{publish_error, queue_error, store_error};
use async_trait::async_trait;
use oncefold_core::id::SourceName;
use oncefold_core::message::Message;
use oncefold_core::queue::{
    Consumers, Prefetch, PublishError, Publisher, QueueAdmin, QueueError, QueueName, Subscription,
};
use oncefold_core::store::Probe;
use std::sync::Arc;

#[async_trait]
impl Publisher for SqliteBackend {
    async fn publish(&self, message: Arc<Message>) -> Result<(), PublishError> {
        self.writer.publish(message).await.map_err(publish_error)
    }

    fn is_available(&self) -> bool {
        self.writer.is_working()
    }
}

#[async_trait]
impl Consumers for SqliteBackend {
    async fn subscribe(&self, queue: QueueName, prefetch: Prefetch) -> Result<Box<dyn Subscription>, QueueError> {
        let subscription = SqliteSubscription::open(self, &queue, prefetch).await.map_err(queue_error)?;
        Ok(Box::new(subscription))
    }
}

#[async_trait]
impl QueueAdmin for SqliteBackend {
    /// A queue is there with its first message: only the file is asked for.
    async fn declare(&self, _sources: &[SourceName]) -> Result<(), QueueError> {
        self.ping().await.map_err(queue_error)
    }

    async fn depths(&self, sources: &[SourceName]) -> Result<Vec<(QueueName, u64)>, QueueError> {
        let names = sources.iter().cloned().map(QueueName::Work).chain([QueueName::Dead]);
        let mut depths = Vec::with_capacity(sources.len() + 1);
        for queue in names {
            let name = queue.to_string();
            let stored = sqlx::query_scalar!("SELECT count(*) FROM queue WHERE name = ?", name)
                .fetch_one(&self.readers)
                .await
                .map_err(|error| queue_error(store_error(error)))?;
            let held = self.lines.line(&name).held();
            depths.push((queue, u64::try_from(stored).unwrap_or(0).saturating_sub(held)));
        }
        Ok(depths)
    }
}
