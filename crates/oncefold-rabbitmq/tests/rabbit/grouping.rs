//! Events that travel together, and part again where it matters.

use crate::broker::{Vhost, declare, within};
use oncefold_core::queue::{Death, Publisher, Queue, QueueAdmin, QueueName, Received, Settlement};
use oncefold_core::{Message, SourceName};
use oncefold_rabbitmq::RabbitQueue;
use oncefold_testkit::builders;
use oncefold_testkit::queue_suite::steps::{
    ROOMY, depth_becomes, messages, nothing_comes, settle, subscribe, subscribe_to, take,
};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

pub const EVENTS: usize = 300;

/// Publishes events from many tasks at once; they are on the queue in fewer messages.
pub async fn publish_at_once(rabbit: &Arc<RabbitQueue>, source: &SourceName) -> Vec<Message> {
    let all: Vec<_> =
        (0..EVENTS).map(|n| builders::message(source.as_str(), &n.to_string(), format!("{n}")).build()).collect();
    let mut under_way = tokio::task::JoinSet::new();
    for message in all.clone() {
        let queue = rabbit.clone();
        under_way.spawn(async move { queue.publish(Arc::new(message)).await });
    }
    let verdicts = within("all have a verdict", under_way.join_all()).await;
    assert!(verdicts.iter().all(Result::is_ok), "{verdicts:?}");
    let depths = rabbit.depths(std::slice::from_ref(source)).await.expect("depths");
    assert!(depths[0].1 <= EVENTS as u64 / 3, "{depths:?}: they were not grouped");
    all
}

pub fn ids(received: &[Received]) -> BTreeSet<String> {
    messages(received).into_iter().map(|message| message.event_id.clone()).collect()
}

/// Every event comes once, as it was; each has a fate of its own, though they share messages.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn every_event_of_a_group_has_its_own_fate() {
    let vhost = Vhost::create();
    let rabbit = vhost.queue();
    let sources = declare(&rabbit, &["shop"]).await;
    let sent = publish_at_once(&rabbit, &sources[0]).await;
    let queue: Arc<dyn Queue> = rabbit;

    let mut work = subscribe(&queue, &sources[0], ROOMY).await;
    let received = take(&mut work, EVENTS).await;
    for message in messages(&received) {
        assert_eq!(message, &sent[message.event_id.parse::<usize>().unwrap()]);
    }
    assert_eq!(ids(&received).len(), EVENTS);

    // A third is acked, a third rejected, a third left open: the last comes again, with its whole groups.
    let fate = |message: &Message| message.event_id.parse::<usize>().unwrap() % 3;
    let with_fate = |n| received.iter().filter(move |r| r.message.as_ref().is_ok_and(|m| fate(m) == n));
    settle(&mut work, with_fate(0).map(|r| (r.tag, Settlement::Ack)).collect()).await;
    settle(&mut work, with_fate(1).map(|r| (r.tag, Settlement::Reject)).collect()).await;
    work.close().await;
    let mut again = subscribe(&queue, &sources[0], ROOMY).await;
    let mut open: BTreeSet<String> = with_fate(2).map(|r| r.message.as_ref().unwrap().event_id.clone()).collect();
    while !open.is_empty() {
        let batch = within("what was open comes again", again.receive(1000, Duration::from_millis(50))).await.unwrap();
        open.retain(|id| !ids(&batch).contains(id));
        let fates = batch.iter().map(|r| match r.message.as_ref().map(fate) {
            Ok(1) => (r.tag, Settlement::Reject),
            _ => (r.tag, Settlement::Ack),
        });
        settle(&mut again, fates.collect()).await;
    }
    depth_becomes(&queue, &QueueName::Work(sources[0].clone()), &sources, 0).await;

    let mut dead = subscribe_to(&queue, QueueName::Dead, ROOMY).await;
    let rejected: BTreeSet<String> = (0..EVENTS).filter(|n| n % 3 == 1).map(|n| n.to_string()).collect();
    let mut letters = BTreeSet::new();
    while letters.len() < rejected.len() {
        let batch = within("letters come", dead.receive(1000, Duration::from_millis(50))).await.unwrap();
        assert!(batch.iter().all(|letter| letter.death == Some(Death::Rejected)));
        letters.extend(ids(&batch));
        settle(&mut dead, batch.iter().map(|letter| (letter.tag, Settlement::Ack)).collect()).await;
    }
    assert_eq!(letters, rejected, "nothing else is dead");
    nothing_comes(&mut dead).await;
}

/// Groups are given in parts where a batch, or the bytes a consumer may hold, are smaller than they.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_group_may_be_larger_than_a_batch_and_the_prefetch() {
    let vhost = Vhost::create();
    let rabbit = vhost.queue();
    let sources = declare(&rabbit, &["shop"]).await;
    publish_at_once(&rabbit, &sources[0]).await;
    let queue: Arc<dyn Queue> = rabbit;
    let tight = oncefold_core::queue::Prefetch { messages: 5, bytes: 2000 };
    let mut work = subscribe(&queue, &sources[0], tight).await;
    let mut seen = BTreeSet::new();
    while seen.len() < EVENTS {
        let batch = within("more events come", work.receive(7, Duration::from_millis(5))).await.unwrap();
        assert!(batch.len() <= 7);
        for id in ids(&batch) {
            assert!(seen.insert(id.clone()), "{id} came twice");
        }
        settle(&mut work, batch.iter().map(|r| (r.tag, Settlement::Ack)).collect()).await;
    }
    depth_becomes(&queue, &QueueName::Work(sources[0].clone()), &sources, 0).await;
}
