use super::{Scratch, execute, open_in};
use crate::SqliteBackend;
use oncefold_core::limits::DELIVERY_LIMIT;
use oncefold_core::message::Message;
use oncefold_core::queue::{
    Consumers, Death, Prefetch, Publisher, QueueAdmin, QueueName, Received, Settlement, Subscription,
};
use oncefold_testkit::builders::{message, source};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, timeout};

const WIDE: Prefetch = Prefetch { messages: 100, bytes: 1 << 20 };
const PATIENCE: Duration = Duration::from_secs(10);

fn work() -> QueueName {
    QueueName::Work(source("shop"))
}

async fn publish(backend: &SqliteBackend, event_ids: &[&str]) -> Vec<Message> {
    let mut messages = Vec::new();
    for event_id in event_ids {
        let message = message("shop", event_id, format!("body of {event_id}\0\u{1F600}")).build();
        backend.publish(Arc::new(message.clone())).await.unwrap();
        messages.push(message);
    }
    messages
}

async fn take(subscription: &mut dyn Subscription, count: usize) -> Vec<Received> {
    let mut taken = Vec::new();
    while taken.len() < count {
        let more = subscription.receive(count - taken.len(), Duration::from_millis(1));
        taken.extend(timeout(PATIENCE, more).await.expect("messages come").unwrap());
    }
    taken
}

fn ids(received: &[Received]) -> Vec<&str> {
    received.iter().map(|received| received.message.as_ref().unwrap().event_id.as_str()).collect()
}

/// Whether nothing comes: there is nothing that could, so a short wait cannot be too short to pass.
async fn nothing_comes(subscription: &mut dyn Subscription) -> bool {
    timeout(Duration::from_millis(50), subscription.receive(1, Duration::ZERO)).await.is_err()
}

#[tokio::test]
async fn messages_come_as_they_were_published_and_in_order() {
    let Scratch { backend, dir: _dir } = Scratch::open().await;
    let sent = publish(&backend, &["a", "b", "c"]).await;
    let mut subscription = backend.subscribe(work(), WIDE).await.unwrap();
    let received = take(&mut *subscription, 3).await;
    let got: Vec<Message> = received.into_iter().map(|received| received.message.unwrap()).collect();
    assert_eq!(got, sent);
}

#[tokio::test]
async fn a_waiting_consumer_is_woken_by_a_publish() {
    let Scratch { backend, dir: _dir } = Scratch::open().await;
    let mut subscription = backend.subscribe(work(), WIDE).await.unwrap();
    let waiting = tokio::spawn(async move { ids(&take(&mut *subscription, 1).await).concat() });
    publish(&backend, &["a"]).await;
    assert_eq!(waiting.await.unwrap(), "a");
}

#[tokio::test]
async fn a_publish_of_another_process_is_found() {
    let Scratch { backend, dir } = Scratch::open().await;
    let mut subscription = backend.subscribe(work(), WIDE).await.unwrap();
    let other = open_in(&dir).await;
    publish(&other, &["a"]).await;
    assert_eq!(ids(&take(&mut *subscription, 1).await), ["a"]);
}

#[tokio::test]
async fn two_subscriptions_of_one_queue_share_it() {
    let Scratch { backend, dir: _dir } = Scratch::open().await;
    publish(&backend, &["a", "b", "c", "d"]).await;
    let mut one = backend.subscribe(work(), WIDE).await.unwrap();
    let mut two = backend.subscribe(work(), WIDE).await.unwrap();
    let first = take(&mut *one, 2).await;
    let second = take(&mut *two, 2).await;
    assert_eq!((ids(&first), ids(&second)), (vec!["a", "b"], vec!["c", "d"]));
    drop(one);
    assert_eq!(ids(&take(&mut *two, 2).await), ["a", "b"], "given back, and not what is held");
    assert!(nothing_comes(&mut *two).await);
}

#[tokio::test]
async fn acked_is_gone_and_rejected_is_a_dead_letter() {
    let Scratch { backend, dir: _dir } = Scratch::open().await;
    let sent = publish(&backend, &["a", "b"]).await;
    let mut subscription = backend.subscribe(work(), WIDE).await.unwrap();
    let mut dead = backend.subscribe(QueueName::Dead, WIDE).await.unwrap();
    let received = take(&mut *subscription, 2).await;
    let verdicts = vec![(received[0].tag, Settlement::Ack), (received[1].tag, Settlement::Reject)];
    subscription.settle(verdicts).await.unwrap();
    let letters = take(&mut *dead, 1).await;
    assert_eq!((letters[0].message.as_ref().unwrap(), letters[0].death), (&sent[1], Some(Death::Rejected)));
    subscription.close().await;
    let mut again = backend.subscribe(work(), WIDE).await.unwrap();
    assert!(nothing_comes(&mut *again).await);
}

#[tokio::test]
async fn what_is_given_up_again_and_again_becomes_a_suspect() {
    let Scratch { backend, dir: _dir } = Scratch::open().await;
    let sent = publish(&backend, &["a"]).await;
    let mut dead = backend.subscribe(QueueName::Dead, WIDE).await.unwrap();
    for _ in 0..DELIVERY_LIMIT {
        let mut subscription = backend.subscribe(work(), WIDE).await.unwrap();
        assert_eq!(ids(&take(&mut *subscription, 1).await), ["a"]);
        subscription.close().await;
    }
    let mut subscription = backend.subscribe(work(), WIDE).await.unwrap();
    assert!(nothing_comes(&mut *subscription).await);
    let letters = take(&mut *dead, 1).await;
    assert_eq!((letters[0].message.as_ref().unwrap(), letters[0].death), (&sent[0], Some(Death::DeliveryLimit)));
}

/// At the limit a row is given to nobody: it moves when it is met, what stands behind it comes, and who waits for letters
/// is woken. The queue is looked at every second; one round that needs less than half of it waited for no look.
#[tokio::test]
async fn what_is_at_the_limit_is_a_letter_at_once() {
    assert_eq!(DELIVERY_LIMIT, 20, "as below");
    let mut quickest = Duration::MAX;
    for _ in 0..5 {
        let Scratch { backend, dir: _dir } = Scratch::open().await;
        let mut dead = backend.subscribe(QueueName::Dead, WIDE).await.unwrap();
        let letters = tokio::spawn(async move { take(&mut *dead, 2).await });
        publish(&backend, &["a", "b", "c"]).await;
        execute(&backend, "UPDATE queue SET tries = 20 WHERE event_id <> 'c'").await;
        let mut subscription = backend.subscribe(work(), WIDE).await.unwrap();
        let began = Instant::now();
        assert_eq!(ids(&take(&mut *subscription, 1).await), ["c"]);
        let letters = letters.await.unwrap();
        quickest = quickest.min(began.elapsed());
        assert_eq!(ids(&letters), ["a", "b"]);
        assert!(letters.iter().all(|letter| letter.death == Some(Death::DeliveryLimit)));
        let left: i64 = sqlx::query_scalar("SELECT count(*) FROM queue").fetch_one(&backend.readers).await.unwrap();
        assert_eq!(left, 3, "each is there once");
    }
    assert!(quickest < Duration::from_millis(500), "{quickest:?}");
}

#[tokio::test]
async fn a_process_that_dies_counts_a_try_of_what_it_may_have_held() {
    let Scratch { backend, dir } = Scratch::open().await;
    publish(&backend, &["a", "b"]).await;
    let prefetch = Prefetch { messages: 1, bytes: 1 << 20 };
    let _held = backend.subscribe(work(), prefetch).await.unwrap();
    assert_eq!(tries(&backend).await, [0, 0], "no process before this one can have held its own messages");
    let next = open_in(&dir).await;
    let _one = next.subscribe(work(), prefetch).await.unwrap();
    let _two = next.subscribe(work(), prefetch).await.unwrap();
    assert_eq!(tries(&next).await, [1, 0], "once a process, and only as many as are held at once");
}

#[tokio::test]
async fn a_clean_restart_counts_one_try_of_what_was_held() {
    let Scratch { backend, dir } = Scratch::open().await;
    publish(&backend, &["a", "b"]).await;
    backend.close().await;
    for expected in [[1, 0], [2, 0]] {
        let process = open_in(&dir).await;
        let (mut one, two) = (process.subscribe(work(), WIDE).await.unwrap(), process.subscribe(work(), WIDE).await);
        assert_eq!(ids(&take(&mut *one, 1).await), ["a"]);
        two.unwrap().close().await;
        one.close().await;
        assert_eq!(tries(&process).await, expected);
        process.close().await;
    }
    let process = open_in(&dir).await;
    drop(process.subscribe(work(), WIDE).await.unwrap());
    let _held = process.subscribe(work(), WIDE).await.unwrap();
    assert_eq!(tries(&process).await, [2, 0], "nobody held anything");
    let after_death = open_in(&dir).await;
    drop(after_death.subscribe(work(), WIDE).await.unwrap());
    assert_eq!(tries(&after_death).await, [3, 1], "a subscription that never ended may have held both");
}

async fn tries(backend: &SqliteBackend) -> Vec<i64> {
    sqlx::query_scalar!("SELECT tries FROM queue ORDER BY sequence").fetch_all(&backend.readers).await.unwrap()
}

#[tokio::test]
async fn the_prefetch_bounds_messages_and_bytes() {
    let Scratch { backend, dir: _dir } = Scratch::open().await;
    let sent = publish(&backend, &["a", "b", "c", "d"]).await;
    let mut few = backend.subscribe(work(), Prefetch { messages: 3, bytes: 1 << 20 }).await.unwrap();
    let full = few.receive(10, Duration::from_secs(3600));
    let received = timeout(PATIENCE, full).await.expect("more cannot come").unwrap();
    assert_eq!(ids(&received), ["a", "b", "c"], "and it does not linger for what it has no room for");
    few.settle(vec![(received[0].tag, Settlement::Ack)]).await.unwrap();
    assert_eq!(ids(&take(&mut *few, 1).await), ["d"]);
    few.close().await;
    let two = sent[1].body.len() * 2;
    let mut small = backend.subscribe(work(), Prefetch { messages: 10, bytes: two }).await.unwrap();
    assert_eq!(ids(&small.receive(10, Duration::ZERO).await.unwrap()), ["b", "c"]);
    small.close().await;
    let mut tiny = backend.subscribe(work(), Prefetch { messages: 10, bytes: 1 }).await.unwrap();
    assert_eq!(ids(&tiny.receive(10, Duration::ZERO).await.unwrap()), ["b"], "one always fits");
}

#[tokio::test]
async fn a_full_batch_does_not_wait_for_the_linger() {
    let Scratch { backend, dir: _dir } = Scratch::open().await;
    publish(&backend, &["a"]).await;
    let mut subscription = backend.subscribe(work(), WIDE).await.unwrap();
    let publisher = backend.clone();
    let receiving = tokio::spawn(async move { subscription.receive(2, Duration::from_secs(3600)).await });
    publish(&publisher, &["b"]).await;
    let received = timeout(PATIENCE, receiving).await.expect("two are enough").unwrap().unwrap();
    assert_eq!(ids(&received), ["a", "b"]);
}

#[tokio::test]
async fn depths_count_what_waits() {
    let Scratch { backend, dir: _dir } = Scratch::open().await;
    publish(&backend, &["a", "b", "c"]).await;
    let mut subscription = backend.subscribe(work(), WIDE).await.unwrap();
    let received = take(&mut *subscription, 2).await;
    subscription.settle(vec![(received[0].tag, Settlement::Reject)]).await.unwrap();
    let depths = backend.depths(&[source("shop"), source("other")]).await.unwrap();
    assert_eq!(depths, [(work(), 1), (QueueName::Work(source("other")), 0), (QueueName::Dead, 1)]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn publishes_of_many_share_commits_and_each_is_there_once() {
    let Scratch { backend, dir } = Scratch::open().await;
    let publishers: Vec<_> = (0..32)
        .map(|publisher| {
            let backend = backend.clone();
            tokio::spawn(async move {
                for at in 0..20 {
                    publish(&backend, &[&format!("{publisher}-{at}")]).await;
                }
            })
        })
        .collect();
    for publisher in publishers {
        publisher.await.unwrap();
    }
    drop(backend);
    let reopened = open_in(&dir).await;
    let wide = Prefetch { messages: 1000, bytes: 1 << 20 };
    let mut subscription = reopened.subscribe(work(), wide).await.unwrap();
    let received = take(&mut *subscription, 640).await;
    let mut got = ids(&received);
    got.sort_unstable();
    got.dedup();
    assert_eq!(got.len(), 640);
}
