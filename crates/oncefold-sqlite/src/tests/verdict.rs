//! A verdict and the queue's row of its message, in one transaction.

use super::{Scratch, execute, open_in};
use crate::SqliteBackend;
use oncefold_core::message::Message;
use oncefold_core::queue::{Consumers, Prefetch, Publisher, QueueAdmin, QueueName, Received, Settlement, Subscription};
use oncefold_core::reason::Reason;
use oncefold_core::store::{ApplyStore, Settled, StoreError};
use oncefold_testkit::builders::{
    applies, at, batch, change, dies, ignored, item, message, repeat_of, retries, source,
};
use std::sync::Arc;
use std::time::Duration;

const WIDE: Prefetch = Prefetch { messages: 100, bytes: 1 << 20 };

async fn held(backend: &SqliteBackend, messages: &[&Message]) -> (Box<dyn Subscription>, Vec<Received>) {
    for message in messages {
        backend.publish(Arc::new((*message).clone())).await.unwrap();
    }
    let mut subscription = backend.subscribe(QueueName::Work(source("shop")), WIDE).await.unwrap();
    let received = subscription.receive(messages.len(), Duration::ZERO).await.unwrap();
    assert_eq!(received.len(), messages.len());
    (subscription, received)
}

async fn rows(backend: &SqliteBackend, name: &str) -> Vec<String> {
    let rows = sqlx::query_scalar("SELECT event_id FROM queue WHERE name = ? ORDER BY sequence").bind(name.to_owned());
    rows.fetch_all(&backend.readers).await.unwrap()
}

#[tokio::test]
async fn a_message_goes_with_its_verdict() {
    let Scratch { backend, dir: _dir } = Scratch::open().await;
    let [applied, ignored_one, failed, dead, untouched] =
        ["applied", "ignored", "failed", "dead", "untouched"].map(|id| message("shop", id, "{}").build());
    let repeat = repeat_of(&applied);
    let sent = [&applied, &ignored_one, &failed, &dead, &untouched, &repeat];
    let (mut subscription, received) = held(&backend, &sent).await;
    let items = vec![
        item(&applied, applies(vec![change("o1", 1).build()])),
        item(&ignored_one, ignored()),
        item(&failed, retries(at(9))),
        item(&dead, dies(Reason::BadKey)),
        item(&repeat, applies(vec![change("o1", 1).build()])),
    ];
    let outcomes = backend.apply(batch(at(1), items)).await.unwrap();
    let settled: Vec<Settled> = outcomes.iter().map(|outcome| outcome.settled).collect();
    assert_eq!(settled, [Settled::Applied, Settled::Ignored, Settled::Retrying, Settled::Dead, Settled::Repeat]);
    assert_eq!(rows(&backend, "oncefold.work.shop").await, ["dead", "untouched"], "what is dead travels on");
    let depth = |depths: Vec<(QueueName, u64)>| depths.iter().map(|(_, depth)| *depth).collect::<Vec<_>>();
    backend.publish(Arc::new(message("shop", "waiting", "{}").build())).await.unwrap();
    assert_eq!(depth(backend.depths(&[source("shop")]).await.unwrap()), [1, 0], "two of three rows are held");
    let settlements = [
        (received[0].tag, Settlement::Ack),
        (received[1].tag, Settlement::Ack),
        (received[2].tag, Settlement::Ack),
        (received[3].tag, Settlement::Reject),
        (received[5].tag, Settlement::Ack),
    ];
    subscription.settle(settlements.to_vec()).await.unwrap();
    assert_eq!(rows(&backend, "oncefold.work.shop").await, ["untouched", "waiting"]);
    assert_eq!(rows(&backend, "oncefold.dead").await, ["dead"]);
    subscription.close().await;
    assert_eq!(depth(backend.depths(&[source("shop")]).await.unwrap()), [2, 1]);
}

/// Not settled: the process ended between verdict and ack.
#[tokio::test]
async fn what_has_a_verdict_does_not_come_again() {
    let Scratch { backend, dir } = Scratch::open().await;
    let [first, second] = ["first", "second"].map(|id| message("shop", id, "{}").build());
    let (_held, _) = held(&backend, &[&first, &second]).await;
    backend.apply(batch(at(1), vec![item(&first, ignored())])).await.unwrap();
    let next = open_in(&dir).await;
    let mut subscription = next.subscribe(QueueName::Work(source("shop")), WIDE).await.unwrap();
    let again = subscription.receive(2, Duration::from_millis(50)).await.unwrap();
    let again: Vec<_> = again.into_iter().map(|received| received.message.unwrap().event_id).collect();
    assert_eq!(again, ["second"]);
}

#[tokio::test]
async fn a_batch_that_fails_takes_no_message_along() {
    let Scratch { backend, dir: _dir } = Scratch::open().await;
    let forbid = "CREATE TRIGGER forbid BEFORE DELETE ON queue BEGIN SELECT RAISE(ABORT, 'no'); END";
    let event = message("shop", "e1", "{}").build();
    let (mut subscription, received) = held(&backend, &[&event]).await;
    execute(&backend, forbid).await;
    let failed = backend.apply(batch(at(1), vec![item(&event, ignored())])).await;
    assert!(matches!(failed, Err(StoreError::Failed(_))), "{failed:?}");
    execute(&backend, "DROP TRIGGER forbid").await;
    assert_eq!(rows(&backend, "oncefold.work.shop").await, ["e1"]);
    let outcomes = backend.apply(batch(at(1), vec![item(&event, ignored())])).await.unwrap();
    assert_eq!(outcomes[0].settled, Settled::Ignored, "nothing of the failed one was kept");
    subscription.settle(vec![(received[0].tag, Settlement::Ack)]).await.unwrap();
    assert!(rows(&backend, "oncefold.work.shop").await.is_empty());
}

/// Two rows alike: a lease that ran out while its message waited. The one goes with the verdict, the other as it always
/// did; and a copy of another generation is another message.
#[tokio::test]
async fn copies_of_an_event_go_one_by_one() {
    let Scratch { backend, dir: _dir } = Scratch::open().await;
    let event = message("shop", "e1", "{}").build();
    let later = message("shop", "e1", "{}").id(event.id).generation(1).build();
    let (mut subscription, received) = held(&backend, &[&event, &event, &later]).await;
    let failing = item(&event, retries(at(9)));
    backend.apply(batch(at(1), vec![failing.clone()])).await.unwrap();
    assert_eq!(rows(&backend, "oncefold.work.shop").await.len(), 2);
    let late = backend.apply(batch(at(2), vec![failing])).await.unwrap();
    assert_eq!(late[0].settled, Settled::Late);
    let acks = received[..2].iter().map(|received| (received.tag, Settlement::Ack)).collect();
    subscription.settle(acks).await.unwrap();
    assert_eq!(rows(&backend, "oncefold.work.shop").await.len(), 1);
    subscription.settle(vec![(received[2].tag, Settlement::Ack)]).await.unwrap();
    assert!(rows(&backend, "oncefold.work.shop").await.is_empty());
}

/// Two rows alike, and which of them a verdict was about is not told. Where it says dead, the one that travels on to the
/// dead letters is still there when it is settled, whichever that is.
#[tokio::test]
async fn what_travels_on_does_not_go_with_the_verdict_on_a_copy() {
    for first in [0, 1] {
        let Scratch { backend, dir: _dir } = Scratch::open().await;
        let event = message("shop", "e1", "{}").build();
        let (mut subscription, received) = held(&backend, &[&event, &event]).await;
        let dead = backend.apply(batch(at(1), vec![item(&event, dies(Reason::BadKey))])).await.unwrap();
        let late = backend.apply(batch(at(2), vec![item(&event, dies(Reason::BadKey))])).await.unwrap();
        assert_eq!((dead[0].settled, late[0].settled), (Settled::Dead, Settled::Late));
        let settlements = [(received[first].tag, Settlement::Reject), (received[1 - first].tag, Settlement::Ack)];
        subscription.settle(settlements.to_vec()).await.unwrap();
        assert!(rows(&backend, "oncefold.work.shop").await.is_empty());
        assert_eq!(rows(&backend, "oncefold.dead").await, ["e1"]);
    }
}

/// A row that is given up, or that cannot be read, goes to the dead letters by itself: a verdict on an event that happens
/// to have the same id is not about it.
#[tokio::test]
async fn a_row_that_brings_no_message_does_not_go_with_a_verdict() {
    let Scratch { backend, dir: _dir } = Scratch::open().await;
    let event = message("shop", "e1", "{}").build();
    backend.publish(Arc::new(event.clone())).await.unwrap();
    execute(&backend, "UPDATE queue SET body_digest = x'00'").await;
    let mut subscription = backend.subscribe(QueueName::Work(source("shop")), WIDE).await.unwrap();
    let received = subscription.receive(1, Duration::ZERO).await.unwrap();
    assert!(received[0].message.is_err());
    backend.apply(batch(at(1), vec![item(&event, ignored())])).await.unwrap();
    subscription.settle(vec![(received[0].tag, Settlement::Reject)]).await.unwrap();
    assert_eq!(rows(&backend, "oncefold.dead").await, ["e1"]);
}

/// What is given up moves to the dead letters by a write of its own, and a verdict may come just before that one.
#[tokio::test]
async fn a_row_that_is_given_up_does_not_go_with_a_verdict() {
    let Scratch { backend, dir: _dir } = Scratch::open().await;
    let event = message("shop", "e1", "{}").build();
    backend.publish(Arc::new(event.clone())).await.unwrap();
    execute(&backend, "UPDATE queue SET tries = 20").await;
    let forbid = "CREATE TRIGGER forbid BEFORE INSERT ON queue WHEN NEW.name = 'oncefold.dead'
                  BEGIN SELECT RAISE(ABORT, 'no'); END";
    execute(&backend, forbid).await;
    let mut subscription = backend.subscribe(QueueName::Work(source("shop")), WIDE).await.unwrap();
    // The row is held for a moment, again and again: one round would often miss it.
    for _ in 0..20 {
        let taking = tokio::time::timeout(Duration::from_millis(10), subscription.receive(1, Duration::ZERO)).await;
        assert!(taking.is_err(), "nothing is given");
        backend.apply(batch(at(1), vec![item(&event, ignored())])).await.unwrap();
        assert_eq!(rows(&backend, "oncefold.work.shop").await, ["e1"], "it has its own way to go");
    }
}
