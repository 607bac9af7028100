//! Scheduler, relay, pruner and gauges.

use crate::support::{World, event, message, pass, source, until, work_queue};
use oncefold_core::queue::QueueName;
use oncefold_core::store::{ActStore, Actor, DutyStore, Election, Replay, SpoolStore, StoreError};
use oncefold_core::{Clock, EventStatus, Message};
use oncefold_testkit::fakes::Fault;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

#[tokio::test(start_paused = true)]
async fn what_a_dead_scheduler_may_have_sent_is_sent_again_and_applied_once() {
    let mut world = World::empty();
    world.settings.pace.sending_lease = Duration::from_secs(60);
    world.store.with_faults(|faults| faults.failed.insert("e1".into(), 1));
    world.publish([event("e1", "o1", 1)]).await;
    let worker = world.start("first").await;
    world.becomes("e1", EventStatus::Retrying).await;
    worker.hard.cancel();
    worker.ended().await.unwrap();

    // Of another source, so that these two only schedule.
    world.sources.push(source("other"));
    world.settings.only_sources = Some(vec![source("other").name]);
    world.store.with_faults(|faults| {
        faults.hook = Some(Box::new(|method| {
            (method == "extend_leases").then(|| Fault::Before(StoreError::Unavailable("died here".into())))
        }));
    });
    let sent_before = world.queue.published();
    let crashing = world.start("crashing").await;
    until("it has published", || world.queue.published() > sent_before).await;
    crashing.hard.cancel();
    crashing.ended().await.unwrap();
    world.store.with_faults(|faults| faults.hook = None);
    let crashed_at = world.clock.now();
    let scheduler = world.start("next").await;
    until("it is sent again", || world.queue.published() == sent_before + 2).await;
    let waited_s = world.clock.now().since(crashed_at).as_secs();
    assert!((55..=65).contains(&waited_s), "after the lease of 60 s, not {waited_s} s");
    pass(&world, Duration::from_secs(1800)).await;
    assert_eq!(world.queue.published(), sent_before + 2, "confirmed: the queue has it, for an hour");

    world.settings.only_sources = None;
    let worker = world.start("consuming").await;
    world.becomes("e1", EventStatus::Applied).await;
    world.queue_empties(&work_queue()).await;
    until("the older copy is late", || {
        worker.metric(r#"oncefold_worker_events_total{outcome="late",source="shop"}"#) == Some(1.0)
    })
    .await;
    assert_eq!((world.recorded("e1").attempts, world.recorded("e1").deliveries), (2, 1));
    scheduler.stop().await.unwrap();
    worker.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_was_not_confirmed_is_sent_again_after_the_short_lease() {
    let world = World::empty();
    world.store.with_faults(|faults| faults.failed.insert("e1".into(), 1));
    world.publish([event("e1", "o1", 1)]).await;
    let worker = world.start("w").await;
    world.becomes("e1", EventStatus::Retrying).await;
    world.queue.set_publishes_fail(true);
    world.becomes("e1", EventStatus::Queued).await;
    world.queue.set_publishes_fail(false);
    let start = tokio::time::Instant::now();
    world.becomes("e1", EventStatus::Applied).await;
    assert!(start.elapsed() < Duration::from_secs(120), "{:?}", start.elapsed());
    worker.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn many_due_events_go_out_page_after_page() {
    let world = World::empty();
    world.publish((0..1000).map(|n| event(&format!("e{n}"), "o1", n))).await;
    let worker = world.start("w").await;
    let applied = |attempts| {
        world.store.recorded().iter().filter(|e| e.status == EventStatus::Applied && e.attempts == attempts).count()
    };
    until("all are applied", || applied(1) == 1000).await;
    for record in world.store.recorded() {
        let replay = Replay { id: record.id, actor: Actor("ops".into()), now: world.clock.now() };
        world.store.replay(&replay).await.unwrap().unwrap();
    }
    let start = world.clock.now();
    until("all are applied again", || applied(2) == 1000).await;
    let taken = world.clock.now().since(start);
    assert!(taken < Duration::from_secs(1), "{taken:?}: a full page is followed by the next at once");
    worker.stop().await.unwrap();
}

/// What is in hand at once is bounded: nothing more is claimed before a page is on the queue. Pages go out until nothing
/// is left.
#[tokio::test(start_paused = true)]
async fn large_bodies_go_out_few_at_a_time() {
    const LARGE: usize = 4 << 20;
    let mut world = World::empty();
    world.settings.pace.page = 3;
    let large = |n: u64| {
        let padding = "x".repeat(LARGE);
        let body = format!(r#"{{"id":"e{n}","type":"order.updated","order":"o{n}","v":1,"padding":"{padding}"}}"#);
        Arc::new(message("shop", &format!("e{n}"), body))
    };
    world.store.spool(&(0..10).map(large).collect::<Vec<_>>()).await.unwrap();
    let sent_before_claims: Arc<Mutex<BTreeMap<&str, Vec<u64>>>> = Arc::default();
    let (noted, queue) = (Arc::clone(&sent_before_claims), world.queue.clone());
    world.store.with_faults(|faults| {
        faults.hook = Some(Box::new(move |method| {
            noted.lock().unwrap().entry(method).or_default().push(queue.published());
            None
        }));
    });
    let worker = world.start("w").await;
    let applied = |attempts| {
        world.store.recorded().iter().filter(|e| e.status == EventStatus::Applied && e.attempts == attempts).count()
    };
    until("all are relayed and applied", || applied(1) == 10).await;
    pass(&world, Duration::from_secs(2)).await; // they look once more
    let relayed = std::mem::take(&mut *sent_before_claims.lock().unwrap())["claim_spooled"].clone();
    for record in world.store.recorded() {
        let replay = Replay { id: record.id, actor: Actor("ops".into()), now: world.clock.now() };
        world.store.replay(&replay).await.unwrap().unwrap();
    }
    until("all are scheduled and applied", || applied(2) == 10).await;
    pass(&world, Duration::from_secs(2)).await;
    let scheduled = sent_before_claims.lock().unwrap()["claim_due"].clone();
    worker.stop().await.unwrap();
    for (sent, total) in [(relayed, 10), (scheduled, 20)] {
        let pages = sent.windows(2).map(|pair| pair[1] - pair[0]).filter(|page| *page > 0);
        assert_eq!(pages.collect::<Vec<_>>(), [3, 3, 3, 1], "{sent:?}");
        assert_eq!(sent.last(), Some(&total));
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_claimed_while_the_queue_is_away() {
    let world = World::empty();
    world.queue.set_away(true);
    world.store.spool(&[Arc::new(event("e1", "o1", 1))]).await.unwrap();
    let worker = world.start("w").await;
    pass(&world, Duration::from_secs(30)).await;
    assert_eq!((world.store.calls("claim_due"), world.store.calls("claim_spooled")), (0, 0));
    world.queue.set_away(false);
    world.becomes("e1", EventStatus::Applied).await;
    worker.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_relay_empties_the_spool_through_every_fault() {
    let world = World::empty();
    let spooled: Vec<Arc<Message>> = (0..700).map(|n| Arc::new(event(&format!("e{n}"), "o1", n))).collect();
    world.store.spool(&spooled).await.unwrap();
    world.queue.set_publishes_fail(true);
    let mut removals = 0;
    world.store.with_faults(|faults| {
        faults.hook = Some(Box::new(move |method| {
            removals += i32::from(method == "remove_spooled");
            let error = StoreError::Unavailable("gone for a moment".into());
            match (method, removals) {
                ("remove_spooled", 1) => Some(Fault::Before(error)),
                ("remove_spooled", 2) => Some(Fault::After(error)),
                _ => None,
            }
        }));
    });
    let (first, second) = (world.start("w1").await, world.start("w2").await);
    pass(&world, Duration::from_secs(30)).await;
    assert_eq!(world.store.spool_depth().await.unwrap(), 700, "unconfirmed, so they stay");
    world.queue.set_publishes_fail(false);
    until("all are applied", || world.store.recorded().len() == 700).await;
    pass(&world, Duration::from_secs(120)).await;
    assert_eq!(world.store.spool_depth().await.unwrap(), 0);
    assert!(world.queue.published() > 700, "the page whose removal failed was sent twice");
    assert!(
        world.store.recorded().iter().all(|e| (e.status, e.attempts, e.deliveries) == (EventStatus::Applied, 1, 1))
    );
    first.stop().await.unwrap();
    second.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn gauges_come_from_one_process_and_go_with_the_election() {
    let world = World::empty();
    world.store.with_faults(|faults| faults.failed.insert("e2".into(), u32::MAX));
    world.publish([message("shop", "e1", r#"{"id":"e1","type":"order.updated"}"#.into()), event("e2", "o2", 1)]).await;
    let first = world.start("w1").await;
    world.becomes("e1", EventStatus::Dead).await;
    world.becomes("e2", EventStatus::Retrying).await;
    let second = world.start("w2").await;
    let dead = r#"oncefold_dead_letters{source="shop"}"#;
    until("it is sampled", || first.metric(dead) == Some(1.0)).await;
    pass(&world, Duration::from_secs(60)).await;
    assert_eq!(second.metric(dead), None, "two processes would count it twice");
    assert!(first.metric(r#"oncefold_oldest_unapplied_seconds{source="shop"}"#).unwrap() > 55.0);
    assert_eq!(first.metric(r#"oncefold_queue_depth{queue="oncefold.dead"}"#), Some(0.0));

    // The election is lost while the store fails; somebody else has won it when it is back.
    world.store.with_faults(|faults| {
        faults.hook =
            Some(Box::new(|method| (method == "elect").then(|| Fault::Before(StoreError::Failed("odd".into())))));
    });
    pass(&world, Duration::from_secs(50)).await;
    world.store.with_faults(|faults| faults.hook = None);
    let now = world.clock.now();
    let theirs = Election { duty: "gauges", holder: "w3".into(), now, lease_until: now.plus(Duration::from_secs(100)) };
    assert!(world.store.elect(&theirs).await.unwrap(), "the lease had run out");
    until("the figures are taken back", || first.metric(dead).is_none()).await;
    assert_eq!(first.metric(r#"oncefold_queue_depth{queue="oncefold.dead"}"#), None);
    until("another samples", || first.metric(dead).is_some() != second.metric(dead).is_some()).await;
    first.stop().await.unwrap();
    second.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_gauge_goes_back_to_zero() {
    let world = World::empty();
    world.publish([message("shop", "e1", r#"{"id":"e1","type":"order.updated"}"#.into())]).await;
    world.store.spool(&[]).await.unwrap();
    let worker = world.start("w").await;
    let dead = r#"oncefold_dead_letters{source="shop"}"#;
    until("it is sampled", || worker.metric(dead) == Some(1.0)).await;
    let discard = oncefold_core::store::Discard {
        id: world.recorded("e1").id,
        actor: Actor("ops".into()),
        reason: "a test".into(),
        now: world.clock.now(),
    };
    world.store.discard(&discard).await.unwrap().unwrap();
    until("it is zero", || worker.metric(dead) == Some(0.0)).await;
    worker.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn retention_forgets_in_bounded_batches_by_one_process() {
    let mut world = World::empty();
    world.settings.bodies_retention = Duration::from_secs(3600);
    world.settings.ids_retention = Duration::from_secs(2 * 3600);
    world.settings.pace.prune_limit = 10;
    world.publish((0..35).map(|n| event(&format!("e{n}"), "o1", n))).await;
    world.publish([message("shop", "dead", r#"{"id":"dead","type":"order.updated"}"#.into())]).await;
    let (first, second) = (world.start("w1").await, world.start("w2").await);
    until("all are settled", || world.store.recorded().len() == 36).await;
    assert!(world.store.calls("prepare_days") >= 1, "days are prepared at the start");
    until("the first events are forgotten", || world.store.recorded().len() < 36).await;
    let start = tokio::time::Instant::now();
    until("the events are forgotten", || world.store.recorded().len() == 1).await;
    assert!(start.elapsed() < Duration::from_secs(10), "a round goes on while there is more: {:?}", start.elapsed());
    assert_eq!(world.status("dead"), Some(EventStatus::Dead), "a dead letter stays, whatever its age");
    assert!(world.store.calls("prune") >= 4, "ten at a time");
    pass(&world, Duration::from_secs(3 * 3600)).await;
    let hours = world.clock.now().since(oncefold_testkit::builders::START).as_secs() / 3600;
    let rounds_of_two = 2 * hours + 8;
    assert!(world.store.calls("prune") <= rounds_of_two, "{} prunes in {hours} h", world.store.calls("prune"));
    assert_eq!(world.queue.depth(&QueueName::Dead), 0);
    first.stop().await.unwrap();
    second.stop().await.unwrap();
}
