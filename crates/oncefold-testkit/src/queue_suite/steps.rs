//! Steps that the cases are made of. Each waits with a deadline and panics with what it was waiting for.

use bytes::Bytes;
use oncefold_core::SourceName;
use oncefold_core::message::Message;
use oncefold_core::queue::{Prefetch, Queue, QueueName, Received, Settlement, Subscription, Tag};
use std::{future::Future, sync::Arc, time::Duration};
use tokio::time::{Instant, sleep, timeout};

/// How long a step may take on a slow machine before the case fails.
pub const DEADLINE: Duration = Duration::from_secs(30);
/// How long is waited to see that nothing comes.
pub const QUIET: Duration = Duration::from_millis(300);
/// A prefetch that no case but those about prefetch comes near.
pub const ROOMY: Prefetch = Prefetch { messages: 1000, bytes: 64 << 20 };

/// Declares the queues of these sources, waiting until the queue is there.
pub async fn declare(queue: &Arc<dyn Queue>, names: &[&str]) -> Vec<SourceName> {
    let sources: Vec<_> = names.iter().map(|name| SourceName::parse(name).expect("a source name")).collect();
    until("the queue takes declarations and publishes", async || {
        queue.declare(&sources).await.is_ok() && queue.is_available()
    })
    .await;
    sources
}

/// Polls until `done` says so.
pub async fn until(what: &str, done: impl AsyncFn() -> bool) {
    let deadline = Instant::now() + DEADLINE;
    while !done().await {
        assert!(Instant::now() < deadline, "waited {DEADLINE:?} in vain until {what}");
        sleep(Duration::from_millis(10)).await;
    }
}

/// The result of `work`, which must come before the deadline.
pub async fn within<T>(what: &str, work: impl Future<Output = T>) -> T {
    timeout(DEADLINE, work).await.unwrap_or_else(|_| panic!("waited {DEADLINE:?} in vain until {what}"))
}

/// A message of `source` with that event id and body.
pub fn message(source: &str, event_id: &str, body: impl Into<Bytes>) -> Message {
    crate::builders::message(source, event_id, body).build()
}

/// Publishes messages with the event ids `0`, `1`, … and bodies that name them.
pub async fn publish_many(queue: &Arc<dyn Queue>, source: &SourceName, count: usize) -> Vec<Message> {
    let mut sent = Vec::new();
    for n in 0..count {
        sent.push(message(source.as_str(), &n.to_string(), format!("{{\"n\":{n}}}")));
        publish(queue, &sent[n]).await;
    }
    sent
}

/// Publishes one message; it must be confirmed.
pub async fn publish(queue: &Arc<dyn Queue>, message: &Message) {
    within("a publish is confirmed", queue.publish(Arc::new(message.clone()))).await.expect("a confirmed publish");
}

/// Subscribes to a source's work queue.
pub async fn subscribe(queue: &Arc<dyn Queue>, source: &SourceName, prefetch: Prefetch) -> Box<dyn Subscription> {
    subscribe_to(queue, QueueName::Work(source.clone()), prefetch).await
}

/// Subscribes to a queue.
pub async fn subscribe_to(queue: &Arc<dyn Queue>, name: QueueName, prefetch: Prefetch) -> Box<dyn Subscription> {
    within("a subscription starts", queue.subscribe(name, prefetch)).await.expect("a subscription")
}

/// Receives exactly `count` messages, in as many batches as it takes.
pub async fn take(subscription: &mut Box<dyn Subscription>, count: usize) -> Vec<Received> {
    let mut taken = Vec::new();
    while taken.len() < count {
        let missing = count - taken.len();
        let batch = within(&format!("{missing} more messages of {count} come"), subscription.receive(missing, QUIET))
            .await
            .expect("a working subscription");
        assert!((1..=missing).contains(&batch.len()), "asked for 1 to {missing}, got {}", batch.len());
        taken.extend(batch);
    }
    taken
}

/// Asserts that nothing comes for a while.
pub async fn nothing_comes(subscription: &mut Box<dyn Subscription>) {
    if let Ok(more) = timeout(QUIET, subscription.receive(1, Duration::ZERO)).await {
        panic!("expected nothing, got {more:?}");
    }
}

/// Settles all of these alike.
pub async fn settle_all(subscription: &mut Box<dyn Subscription>, received: &[Received], settlement: Settlement) {
    settle(subscription, received.iter().map(|r| (r.tag, settlement)).collect()).await;
}

/// Settles.
pub async fn settle(subscription: &mut Box<dyn Subscription>, settlements: Vec<(Tag, Settlement)>) {
    within("messages are settled", subscription.settle(settlements)).await.expect("settled");
}

/// The messages of a batch, all of which must be ours.
pub fn messages(received: &[Received]) -> Vec<&Message> {
    received.iter().map(|r| r.message.as_ref().expect("a message of ours")).collect()
}

/// The event ids of a batch.
pub fn event_ids(received: &[Received]) -> Vec<&str> {
    messages(received).into_iter().map(|m| m.event_id.as_str()).collect()
}

/// The texts `from`, …, `to - 1`.
pub fn numbers(range: std::ops::Range<usize>) -> Vec<String> {
    range.map(|n| n.to_string()).collect()
}

/// Waits until the queue holds this many waiting messages.
pub async fn depth_becomes(queue: &Arc<dyn Queue>, name: &QueueName, sources: &[SourceName], depth: u64) {
    until(&format!("{name} holds {depth}"), async || {
        let depths = queue.depths(sources).await.expect("depths");
        depths.iter().any(|(queue, messages)| queue == name && *messages == depth)
    })
    .await;
}
