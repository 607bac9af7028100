//! What becomes of a message once it was received.

use super::steps::{
    ROOMY, declare, depth_becomes, event_ids, nothing_comes, numbers, publish_many, settle, settle_all, subscribe,
    subscribe_to, take,
};
use oncefold_core::queue::{Prefetch, Queue, QueueName, Settlement};
use std::{collections::BTreeSet, sync::Arc, time::Duration};
use tokio::time::timeout;

/// Acked is gone: no later subscription sees it.
pub async fn an_acked_message_is_gone(queue: Arc<dyn Queue>) {
    let sources = declare(&queue, &["shop"]).await;
    publish_many(&queue, &sources[0], 3).await;
    let mut first = subscribe(&queue, &sources[0], ROOMY).await;
    let received = take(&mut first, 3).await;
    settle_all(&mut first, &received, Settlement::Ack).await;
    first.close().await;

    let mut second = subscribe(&queue, &sources[0], ROOMY).await;
    nothing_comes(&mut second).await;
}

/// Dropped without a word, a subscription's unsettled messages come again, the same and in order.
pub async fn a_dropped_subscription_gives_back(queue: Arc<dyn Queue>) {
    let sources = declare(&queue, &["shop"]).await;
    let sent = publish_many(&queue, &sources[0], 4).await;
    let mut first = subscribe(&queue, &sources[0], ROOMY).await;
    let received = take(&mut first, 4).await;
    settle_all(&mut first, &received[..1], Settlement::Ack).await;
    drop(first);

    let mut second = subscribe(&queue, &sources[0], ROOMY).await;
    let again = take(&mut second, 3).await;
    assert_eq!(super::steps::messages(&again), sent[1..].iter().collect::<Vec<_>>());
}

/// Closed, a subscription's unsettled messages are back, those too that it had not given yet.
pub async fn a_closed_subscription_gives_back(queue: Arc<dyn Queue>) {
    let sources = declare(&queue, &["shop"]).await;
    publish_many(&queue, &sources[0], 6).await;
    let mut first = subscribe(&queue, &sources[0], ROOMY).await;
    take(&mut first, 2).await;
    first.close().await;
    depth_becomes(&queue, &QueueName::Work(sources[0].clone()), &sources, 6).await;

    let mut second = subscribe(&queue, &sources[0], ROOMY).await;
    let again = take(&mut second, 6).await;
    assert_eq!(event_ids(&again).into_iter().collect::<BTreeSet<_>>().len(), 6);
}

/// A batch settled in one call, acks and rejects in turns, some left open: each message has exactly its own fate.
pub async fn acks_and_rejects_mix(queue: Arc<dyn Queue>) {
    let sources = declare(&queue, &["shop"]).await;
    publish_many(&queue, &sources[0], 12).await;
    let mut work = subscribe(&queue, &sources[0], ROOMY).await;
    let received = take(&mut work, 12).await;
    // a a R a . R R a . a a R      (a: acked, R: rejected, .: left open)
    let fates = "aaRa.RRa.aaR".chars();
    let settlements = received.iter().zip(fates).filter_map(|(received, fate)| match fate {
        'a' => Some((received.tag, Settlement::Ack)),
        'R' => Some((received.tag, Settlement::Reject)),
        _ => None,
    });
    settle(&mut work, settlements.collect()).await;

    let mut dead = subscribe_to(&queue, QueueName::Dead, ROOMY).await;
    let letters = take(&mut dead, 4).await;
    assert_eq!(event_ids(&letters).into_iter().collect::<BTreeSet<_>>(), BTreeSet::from(["2", "5", "6", "11"]));
    nothing_comes(&mut dead).await;

    work.close().await;
    let mut again = subscribe(&queue, &sources[0], ROOMY).await;
    assert_eq!(event_ids(&take(&mut again, 2).await), ["4", "8"], "what was left open comes again, nothing else");
    nothing_comes(&mut again).await;
}

/// The last of a batch acked first settles that one alone; the others can still be settled, in any order.
pub async fn an_ack_covers_only_what_it_names(queue: Arc<dyn Queue>) {
    let sources = declare(&queue, &["shop"]).await;
    publish_many(&queue, &sources[0], 5).await;
    let mut first = subscribe(&queue, &sources[0], ROOMY).await;
    let received = take(&mut first, 5).await;
    for n in [4, 1, 2] {
        settle_all(&mut first, &received[n..=n], Settlement::Ack).await;
    }
    first.close().await;

    let mut second = subscribe(&queue, &sources[0], ROOMY).await;
    assert_eq!(event_ids(&take(&mut second, 2).await), ["0", "3"]);
    nothing_comes(&mut second).await;
}

/// Two subscriptions of one queue share its messages: each goes to exactly one.
pub async fn two_subscriptions_share(queue: Arc<dyn Queue>) {
    const COUNT: usize = 60;
    let sources = declare(&queue, &["shop"]).await;
    let few = Prefetch { messages: 5, bytes: 1 << 20 };
    let mut subscriptions = [subscribe(&queue, &sources[0], few).await, subscribe(&queue, &sources[0], few).await];
    publish_many(&queue, &sources[0], COUNT).await;

    let mut seen = Vec::new();
    let mut shares = [0, 0];
    super::steps::within("all messages came", async {
        while seen.len() < COUNT {
            for (share, subscription) in shares.iter_mut().zip(&mut subscriptions) {
                let batch = timeout(Duration::from_millis(50), subscription.receive(3, Duration::ZERO)).await;
                let Ok(batch) = batch else { continue };
                let batch = batch.expect("a batch");
                seen.extend(event_ids(&batch).into_iter().map(str::to_owned));
                *share += batch.len();
                settle_all(subscription, &batch, Settlement::Ack).await;
            }
        }
    })
    .await;
    seen.sort_by_key(|id| id.parse::<usize>().expect("a number"));
    assert_eq!(seen, numbers(0..COUNT), "each message came once");
    assert!(shares.iter().all(|share| *share >= 5), "both took part: {shares:?}");
}
