//! Dead letters.

use super::steps::{
    ROOMY, declare, event_ids, messages, nothing_comes, publish_many, settle_all, subscribe, subscribe_to, take, within,
};
use oncefold_core::limits::DELIVERY_LIMIT;
use oncefold_core::queue::{Death, Queue, QueueName, Settlement};
use std::{sync::Arc, time::Duration};
use tokio::time::timeout;

/// Rejected, a message arrives on `oncefold.dead` as it was, marked as rejected, and leaves its work queue.
pub async fn a_reject_is_a_dead_letter(queue: Arc<dyn Queue>) {
    let sources = declare(&queue, &["shop"]).await;
    let sent = publish_many(&queue, &sources[0], 2).await;
    let mut work = subscribe(&queue, &sources[0], ROOMY).await;
    let received = take(&mut work, 2).await;
    settle_all(&mut work, &received[1..], Settlement::Reject).await;

    let mut dead = subscribe_to(&queue, QueueName::Dead, ROOMY).await;
    let letters = take(&mut dead, 1).await;
    assert_eq!(messages(&letters), [&sent[1]]);
    assert_eq!(letters[0].death, Some(Death::Rejected));
    settle_all(&mut dead, &letters, Settlement::Ack).await;
    nothing_comes(&mut dead).await;
}

/// A letter that nobody acks stays, however often it is given back: past the limit of work queues, too.
pub async fn dead_letters_stay_until_they_are_acked(queue: Arc<dyn Queue>) {
    let sources = declare(&queue, &["shop"]).await;
    let sent = publish_many(&queue, &sources[0], 1).await;
    let mut work = subscribe(&queue, &sources[0], ROOMY).await;
    let received = take(&mut work, 1).await;
    settle_all(&mut work, &received, Settlement::Reject).await;

    for _ in 0..DELIVERY_LIMIT + 5 {
        let mut dead = subscribe_to(&queue, QueueName::Dead, ROOMY).await;
        assert_eq!(messages(&take(&mut dead, 1).await), [&sent[0]]);
        dead.close().await;
    }
    let mut dead = subscribe_to(&queue, QueueName::Dead, ROOMY).await;
    let letters = take(&mut dead, 1).await;
    settle_all(&mut dead, &letters, Settlement::Ack).await;
    nothing_comes(&mut dead).await;
}

/// A letter says how it died each time it comes.
pub async fn a_letter_names_its_cause_after_it_came_again(queue: Arc<dyn Queue>) {
    let sources = declare(&queue, &["shop"]).await;
    publish_many(&queue, &sources[0], 1).await;
    let mut work = subscribe(&queue, &sources[0], ROOMY).await;
    let received = take(&mut work, 1).await;
    settle_all(&mut work, &received, Settlement::Reject).await;
    for _ in 0..2 {
        let mut dead = subscribe_to(&queue, QueueName::Dead, ROOMY).await;
        assert_eq!(take(&mut dead, 1).await[0].death, Some(Death::Rejected));
    }
}

/// Given back again and again, a message goes to `oncefold.dead` after the delivery limit, marked as given up.
pub async fn the_delivery_limit_makes_a_dead_letter(queue: Arc<dyn Queue>) {
    let sources = declare(&queue, &["shop"]).await;
    let sent = publish_many(&queue, &sources[0], 1).await;
    let mut dead = subscribe_to(&queue, QueueName::Dead, ROOMY).await;

    let mut deliveries = 0;
    let letters = within("the message is given up", async {
        loop {
            let mut work = subscribe(&queue, &sources[0], ROOMY).await;
            if let Ok(batch) = timeout(Duration::from_millis(100), work.receive(1, Duration::ZERO)).await {
                assert_eq!(messages(&batch.expect("a batch")), [&sent[0]]);
                deliveries += 1;
            }
            work.close().await;
            if deliveries >= DELIVERY_LIMIT
                && let Ok(letters) = timeout(Duration::from_millis(100), dead.receive(1, Duration::ZERO)).await
            {
                break letters.expect("a letter");
            }
        }
    })
    .await;

    // RabbitMQ counts redeliveries, so the first is free; a queue that counts every one may give up one sooner.
    assert!((DELIVERY_LIMIT..=DELIVERY_LIMIT + 1).contains(&deliveries), "{deliveries} deliveries");
    assert_eq!(event_ids(&letters), ["0"]);
    assert_eq!(messages(&letters), [&sent[0]]);
    assert_eq!(letters[0].death, Some(Death::DeliveryLimit));
    settle_all(&mut dead, &letters, Settlement::Ack).await;
    let mut work = subscribe(&queue, &sources[0], ROOMY).await;
    nothing_comes(&mut work).await;
}
