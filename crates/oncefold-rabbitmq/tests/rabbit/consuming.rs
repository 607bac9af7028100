//! What only a broker that others use too can show.

use crate::broker::{Vhost, declare, within};
use oncefold_core::SourceName;
use oncefold_core::queue::{Consumers, Publisher, Queue, QueueError, QueueName, Settlement};
use oncefold_testkit::builders;
use oncefold_testkit::queue_suite::steps::{ROOMY, publish_many, settle_all, subscribe, subscribe_to, take};
use std::sync::Arc;
use std::time::Duration;

/// What somebody else put on a queue is told apart, and can be settled.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn foreign_messages_say_why() {
    let vhost = Vhost::create();
    let rabbit = vhost.queue();
    let sources = declare(&rabbit, &["shop"]).await;
    let foreign = r#"{"properties":{},"routing_key":"oncefold.work.shop","payload":"x","payload_encoding":"string"}"#;
    vhost.http("POST", &format!("exchanges/{}/amq.default/publish", vhost.name), foreign);
    let queue: Arc<dyn Queue> = rabbit;
    publish_many(&queue, &sources[0], 1).await;

    let mut work = subscribe(&queue, &sources[0], ROOMY).await;
    let received = take(&mut work, 2).await;
    let why = received[0].message.as_ref().expect_err("none of ours").to_string();
    assert!(why.contains("not published by Oncefold"), "{why}");
    assert!(received[1].message.is_ok());
    settle_all(&mut work, &received[..1], Settlement::Reject).await;
    let mut dead = subscribe_to(&queue, QueueName::Dead, ROOMY).await;
    assert!(take(&mut dead, 1).await[0].message.is_err());
}

/// Rejected once more, on the dead queue, a letter is put back: behind that queue is nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_letter_cannot_be_rejected_into_nothing() {
    let vhost = Vhost::create();
    let rabbit = vhost.queue();
    let sources = declare(&rabbit, &["shop"]).await;
    let queue: Arc<dyn Queue> = rabbit;
    publish_many(&queue, &sources[0], 1).await;
    let mut work = subscribe(&queue, &sources[0], ROOMY).await;
    let received = take(&mut work, 1).await;
    settle_all(&mut work, &received, Settlement::Reject).await;
    let mut dead = subscribe_to(&queue, QueueName::Dead, ROOMY).await;
    for _ in 0..3 {
        let letters = take(&mut dead, 1).await;
        settle_all(&mut dead, &letters, Settlement::Reject).await;
    }
}

/// Subscribing declares the queue; deleted under the subscription, it ends with an error, and a new one brings it back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_subscription_declares_its_queue_and_outlives_its_deletion() {
    let vhost = Vhost::create();
    let rabbit = vhost.queue();
    declare(&rabbit, &[]).await;
    let source = SourceName::parse("fresh").unwrap();
    for id in ["1", "2"] {
        let mut subscription = within("subscribed", rabbit.subscribe(QueueName::Work(source.clone()), ROOMY))
            .await
            .expect("declared where it is missing");
        rabbit.publish(Arc::new(builders::message("fresh", id, "{}").build())).await.expect("confirmed");
        take(&mut subscription, 1).await;
        vhost.http("DELETE", &format!("queues/{}/oncefold.work.fresh", vhost.name), "");
        for _ in 0..2 {
            let ended = within("it ends", subscription.receive(1, Duration::ZERO)).await;
            assert!(matches!(ended, Err(QueueError::Away(_))), "{ended:?}");
        }
    }
}
