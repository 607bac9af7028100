//! The broker gone, frozen or cut off, by way of a proxy.

use crate::broker::{FrozenQueue, PATIENT, Vhost, declare, until, within};
use oncefold_core::queue::{
    Consumers, PublishError, Publisher, Queue, QueueAdmin, QueueError, QueueName, Settlement, Subscription,
};
use oncefold_core::{EventUuid, SourceName};
use oncefold_rabbitmq::RabbitQueue;
use oncefold_testkit::builders;
use oncefold_testkit::proxy::ChaosProxy;
use oncefold_testkit::queue_suite::steps::{ROOMY, messages, publish_many, settle_all, subscribe, take};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::time::{Instant, timeout};

const SHORT: Duration = Duration::from_millis(300);
/// For tests in which others must be confirmed meanwhile, on a busy machine too.
const LONGER: Duration = Duration::from_millis(1500);

async fn publish(queue: &RabbitQueue) -> (EventUuid, Result<(), PublishError>) {
    let message = Arc::new(builders::message("shop", "id", "{}").build());
    let verdict = within("a publish has a verdict", queue.publish(message.clone())).await;
    (message.id, verdict)
}

/// A broker that is not there when we start is no error; once it appears, everything is declared and works.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_absent_broker_is_waited_for() {
    let vhost = Vhost::create();
    let proxy = ChaosProxy::before(vhost.address()).await;
    proxy.cut();
    let queue = vhost.queue_by(proxy.address(), PATIENT);
    let shop = SourceName::parse("shop").unwrap();
    let start = Instant::now();
    assert!(!queue.is_available());
    assert!(matches!(publish(&queue).await.1, Err(PublishError::Away(_))));
    assert!(matches!(queue.declare(std::slice::from_ref(&shop)).await, Err(QueueError::Away(_))));
    assert!(matches!(queue.subscribe(QueueName::Dead, ROOMY).await, Err(QueueError::Away(_))));
    assert!(matches!(queue.depths(std::slice::from_ref(&shop)).await, Err(QueueError::Away(_))));
    assert!(start.elapsed() < Duration::from_secs(2), "nothing waits for an absent broker");

    proxy.restore();
    until("the broker is found", async || queue.is_available()).await;
    until("what was declared in vain is there", async || publish(&queue).await.1.is_ok()).await;
}

/// A frozen broker: publishes time out, then are refused at once; thawed, they work again without a new connection.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frozen_broker_is_left_alone_and_found_again() {
    let vhost = Vhost::create();
    let proxy = ChaosProxy::before(vhost.address()).await;
    let queue = vhost.queue_by(proxy.address(), SHORT);
    declare(&queue, &["shop"]).await;
    until("it is warm", async || publish(&queue).await.1.is_ok()).await;

    proxy.stall();
    for _ in 0..3 {
        let start = Instant::now();
        let verdict = publish(&queue).await.1;
        assert!(matches!(verdict, Err(PublishError::TimedOut(limit)) if limit == SHORT), "{verdict:?}");
        assert!(start.elapsed() >= SHORT);
    }
    assert!(!queue.is_available());
    let start = Instant::now();
    for _ in 0..100 {
        let verdict = publish(&queue).await.1;
        assert!(matches!(verdict, Err(PublishError::Away(_))), "{verdict:?}");
    }
    assert!(start.elapsed() < SHORT, "away costs no time: {:?} for 100", start.elapsed());

    proxy.restore();
    until("publishing works again", async || publish(&queue).await.1.is_ok()).await;
}

/// Frozen for good, the connection is given up by heartbeat or by the broker, and a new one made.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_died_silently_is_replaced() {
    let vhost = Vhost::create();
    let proxy = ChaosProxy::before(vhost.address()).await;
    let url = format!("{}?heartbeat=1", vhost.url_by(proxy.address()));
    let queue = crate::broker::start(url, SHORT);
    let sources = declare(&queue, &["shop"]).await;
    let mut subscription = queue.subscribe(QueueName::Work(sources[0].clone()), ROOMY).await.expect("subscribed");

    proxy.stall();
    let ended = within("the subscription notices", subscription.receive(1, Duration::ZERO)).await;
    assert!(matches!(ended, Err(QueueError::Away(_))), "{ended:?}");
    until("publishing notices", async || !queue.is_available()).await;

    proxy.restore();
    until("publishing works again", async || publish(&queue).await.1.is_ok()).await;
}

/// Connections cut again and again under load: what was confirmed is on the queue, whatever else is an error.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_was_confirmed_before_a_cut_is_there() {
    const CUTS: usize = 4;
    let vhost = Vhost::create();
    let proxy = ChaosProxy::before(vhost.address()).await;
    let queue = vhost.queue_by(proxy.address(), PATIENT);
    let sources = declare(&queue, &["shop"]).await;

    let stop = Arc::new(AtomicBool::new(false));
    let mut publishers = tokio::task::JoinSet::new();
    for _ in 0..32 {
        let (queue, stop) = (queue.clone(), stop.clone());
        publishers.spawn(async move {
            let (mut confirmed, mut failed) = (Vec::new(), 0);
            while !stop.load(Ordering::Relaxed) {
                match publish(&queue).await {
                    (id, Ok(())) => confirmed.push(id),
                    (_, Err(PublishError::Away(_))) => {
                        failed += 1;
                        tokio::time::sleep(Duration::from_millis(5)).await; // else it would only spin while away
                    }
                    (_, Err(other)) => panic!("{other}"),
                }
            }
            (confirmed, failed)
        });
    }
    for _ in 0..CUTS {
        until("publishing works", async || queue.is_available()).await;
        until("some are under way", async || publish(&queue).await.1.is_ok()).await;
        proxy.disconnect();
        until("the loss is noticed", async || !queue.is_available()).await;
    }
    stop.store(true, Ordering::Relaxed);
    let results = within("the publishers end", publishers.join_all()).await;
    assert!(results.iter().any(|(_, failed)| *failed > 0), "no publish was cut: the test shows nothing");
    let mut missing: BTreeSet<_> = results.into_iter().flat_map(|(confirmed, _)| confirmed).collect();

    declare(&queue, &["shop"]).await;
    let queue: Arc<dyn Queue> = queue;
    let mut subscription = subscribe(&queue, &sources[0], ROOMY).await;
    within("every confirmed message is there", async {
        while !missing.is_empty() {
            let batch = subscription.receive(500, Duration::ZERO).await.expect("a batch");
            for message in messages(&batch) {
                missing.remove(&message.id);
            }
            settle_all(&mut subscription, &batch, Settlement::Ack).await;
        }
    })
    .await;
}

/// A subscription whose connection is cut says so, at once and ever after; a new one gets what was unsettled.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cut_subscription_ends_and_a_new_one_gets_everything() {
    let vhost = Vhost::create();
    let proxy = ChaosProxy::before(vhost.address()).await;
    let rabbit = vhost.queue_by(proxy.address(), PATIENT);
    let sources = declare(&rabbit, &["shop"]).await;
    let queue: Arc<dyn Queue> = rabbit;
    publish_many(&queue, &sources[0], 3).await;
    let mut first = subscribe(&queue, &sources[0], ROOMY).await;
    let received = take(&mut first, 2).await;

    proxy.disconnect();
    assert_ends(&mut first).await;
    let settled = first.settle(vec![(received[0].tag, Settlement::Ack)]).await;
    assert!(matches!(settled, Err(QueueError::Away(_))), "{settled:?}");
    first.close().await;

    until("the broker is there again", async || {
        let Ok(mut again) = queue.subscribe(QueueName::Work(sources[0].clone()), ROOMY).await else { return false };
        assert_eq!(take(&mut again, 3).await.len(), 3);
        true
    })
    .await;
}

pub async fn assert_ends(subscription: &mut Box<dyn Subscription>) {
    within("the subscription ends", async {
        // What was in the buffer may still come before the end is noticed.
        while subscription.receive(1, Duration::ZERO).await.is_ok() {}
    })
    .await;
    let again = timeout(SHORT, subscription.receive(1, Duration::ZERO)).await.expect("at once");
    assert!(matches!(again, Err(QueueError::Away(_))), "{again:?}");
}

/// A quorum queue without its majority confirms nothing: its source goes elsewhere at once, and no other suffers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_that_confirms_nothing_is_left_alone_and_found_again() {
    let vhost = Vhost::create();
    let queue = vhost.queue_by(vhost.address(), LONGER);
    declare(&queue, &["shop", "other"]).await;
    for _ in 0..4 {
        until("every channel is warm", async || publish(&queue).await.1.is_ok()).await;
    }

    let freeze = FrozenQueue::freeze(&vhost, "oncefold.work.shop");
    for _ in 0..3 {
        assert!(matches!(publish(&queue).await.1, Err(PublishError::TimedOut(_))));
        assert_eq!(publish_other(&queue).await, Ok(()));
    }
    let waited = async || matches!(publish(&queue).await.1, Err(PublishError::TimedOut(_)));
    let mut tried = 0;
    for _ in 0..100 {
        tried += u32::from(waited().await);
    }
    // Three in a row would make the whole broker count as silent.
    assert!(tried <= 1, "{tried} of 100 waited for a confirm");
    until("now and then one tries", waited).await;
    assert_eq!(publish_other(&queue).await, Ok(()));
    assert!(queue.is_available());

    freeze.thaw();
    until("its events are taken again", async || publish(&queue).await.1.is_ok()).await;
    assert!(publish(&queue).await.1.is_ok(), "not only one in a while");
}

/// A new connection meets such a queue: RabbitMQ stops each channel that is the first to publish to it for a while.
/// Afterwards only trials do, and they have a channel of their own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn trials_of_a_queue_that_confirms_nothing_stop_no_channel_of_others() {
    let vhost = Vhost::create();
    declare(&vhost.queue(), &["shop", "other"]).await;
    let freeze = FrozenQueue::freeze(&vhost, "oncefold.work.shop");
    let queue = vhost.queue_by(vhost.address(), LONGER);
    declare(&queue, &["shop", "other"]).await;
    for _ in 0..3 {
        assert!(matches!(publish(&queue).await.1, Err(PublishError::TimedOut(_))));
    }
    for _ in 0..4 {
        until("others are taken", async || publish_other(&queue).await.is_ok()).await;
    }
    for _ in 0..3 {
        let tried = async || matches!(publish(&queue).await.1, Err(PublishError::TimedOut(_)));
        until("one tries", tried).await;
        for _ in 0..4 {
            assert_eq!(publish_other(&queue).await, Ok(()), "no channel of others waits with it");
        }
    }
    freeze.thaw();
    until("its events are taken again", async || publish(&queue).await.1.is_ok()).await;
}

async fn publish_other(queue: &RabbitQueue) -> Result<(), String> {
    let message = Arc::new(builders::message("other", "id", "{}").build());
    queue.publish(message).await.map_err(|error| error.to_string())
}
