//! How much a subscription gives, and when.

use super::steps::{
    ROOMY, declare, event_ids, message, nothing_comes, numbers, publish, publish_many, settle_all, subscribe, take,
    within,
};
use oncefold_core::queue::{Prefetch, Queue, Settlement};
use std::{sync::Arc, time::Duration};
use tokio::time::{Instant, timeout};

/// Longer than any case may take: a receive that waits for it has not returned early.
const FOREVER: Duration = Duration::from_secs(3600);

/// With `max` messages there, the linger is not waited for, and the rest stays for the next batch.
pub async fn a_batch_comes_at_once_when_it_is_full(queue: Arc<dyn Queue>) {
    let sources = declare(&queue, &["shop"]).await;
    publish_many(&queue, &sources[0], 12).await;
    let mut subscription = subscribe(&queue, &sources[0], ROOMY).await;

    for expected in [numbers(0..5), numbers(5..10)] {
        let batch = within("a full batch comes", subscription.receive(5, FOREVER)).await.expect("a batch");
        assert_eq!(event_ids(&batch), expected);
    }
}

/// A batch that does not fill is given when its linger has passed since its first message, not before.
pub async fn a_batch_ends_when_its_linger_has_passed(queue: Arc<dyn Queue>) {
    let linger = Duration::from_millis(400);
    let sources = declare(&queue, &["shop"]).await;
    let mut subscription = subscribe(&queue, &sources[0], ROOMY).await;
    publish_many(&queue, &sources[0], 3).await;

    let start = Instant::now();
    let batch = within("a batch comes", subscription.receive(100, linger)).await.expect("a batch");
    assert!(!batch.is_empty() && start.elapsed() >= linger, "{} after {:?}", batch.len(), start.elapsed());
    assert_eq!(event_ids(&batch), numbers(0..3), "all that came in the meantime is in the batch");

    publish(&queue, &message("shop", "late", "{}")).await;
    let batch = within("a batch comes", subscription.receive(100, Duration::ZERO)).await.expect("a batch");
    assert_eq!(event_ids(&batch), ["late"]);
}

/// No more unsettled messages than the prefetch; settling makes room.
pub async fn prefetch_is_bounded(queue: Arc<dyn Queue>) {
    let sources = declare(&queue, &["shop"]).await;
    publish_many(&queue, &sources[0], 12).await;
    let mut subscription = subscribe(&queue, &sources[0], Prefetch { messages: 5, bytes: 1 << 20 }).await;

    let held = take(&mut subscription, 5).await;
    assert_eq!(event_ids(&held), numbers(0..5));
    nothing_comes(&mut subscription).await;

    settle_all(&mut subscription, &held[..2], Settlement::Ack).await;
    let more = take(&mut subscription, 2).await;
    assert_eq!(event_ids(&more), numbers(5..7));
    nothing_comes(&mut subscription).await;
}

/// As many unsettled bytes as the prefetch allows and no more, but for a message that is larger on its own; not either
/// when many small messages came before the large ones.
pub async fn bytes_are_bounded_but_one_message_always_fits(queue: Arc<dyn Queue>) {
    const BODY: usize = 200 << 10;
    let sources = declare(&queue, &["shop"]).await;
    publish_many(&queue, &sources[0], 40).await;
    for n in 0..6 {
        publish(&queue, &message("shop", &n.to_string(), vec![b'x'; BODY])).await;
    }
    let prefetch = Prefetch { messages: 100, bytes: 3 * BODY };
    let mut subscription = subscribe(&queue, &sources[0], prefetch).await;
    for _ in 0..40 {
        let small = take(&mut subscription, 1).await;
        settle_all(&mut subscription, &small, Settlement::Ack).await;
    }
    take(&mut subscription, 1).await;
    take(&mut subscription, 2).await;
    nothing_comes(&mut subscription).await;
    subscription.close().await;

    let prefetch = Prefetch { messages: 100, bytes: BODY / 2 };
    let mut subscription = subscribe(&queue, &sources[0], prefetch).await;
    for _ in 0..6 {
        let one = take(&mut subscription, 1).await;
        nothing_comes(&mut subscription).await;
        settle_all(&mut subscription, &one, Settlement::Ack).await;
    }
}

/// A receive that is dropped while it waits or lingers takes nothing with it.
pub async fn a_cancelled_receive_loses_nothing(queue: Arc<dyn Queue>) {
    let sources = declare(&queue, &["shop"]).await;
    let mut subscription = subscribe(&queue, &sources[0], ROOMY).await;
    nothing_comes(&mut subscription).await; // dropped while it waited for the first

    publish_many(&queue, &sources[0], 4).await;
    for _ in 0..3 {
        let lingering = timeout(Duration::from_millis(100), subscription.receive(100, FOREVER)).await;
        assert!(lingering.is_err(), "a batch that is not full came before its linger had passed");
    }
    assert_eq!(event_ids(&take(&mut subscription, 4).await), numbers(0..4));
}

/// Small and large messages in turns, received while the batch before is still unsettled: all come, each once, in order.
pub async fn sizes_may_change(queue: Arc<dyn Queue>) {
    const BYTES: usize = 400 << 10;
    let sources = declare(&queue, &["shop"]).await;
    for n in 0..120 {
        let size = if n % 40 < 30 { 20 } else { 100 << 10 };
        publish(&queue, &message("shop", &n.to_string(), vec![b'x'; size])).await;
    }
    let mut subscription = subscribe(&queue, &sources[0], Prefetch { messages: 50, bytes: BYTES }).await;

    let mut seen = Vec::new();
    let mut unsettled = Vec::new();
    within("all have come", async {
        while seen.len() < 120 {
            // Nothing may come while the bytes are used up by what is unsettled.
            let batch = timeout(Duration::from_millis(300), subscription.receive(7, Duration::ZERO)).await;
            let batch = batch.map_or_else(|_| Vec::new(), |batch| batch.expect("a batch"));
            assert!(!batch.is_empty() || !unsettled.is_empty(), "nothing came though nothing was unsettled");
            seen.extend(event_ids(&batch).into_iter().map(str::to_owned));
            settle_all(&mut subscription, &std::mem::replace(&mut unsettled, batch), Settlement::Ack).await;
        }
    })
    .await;
    assert_eq!(seen, numbers(0..120));
}
