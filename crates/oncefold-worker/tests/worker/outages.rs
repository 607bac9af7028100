//! The database or the queue away.

use crate::support::{World, event, message, pass, source, until, work_queue};
use oncefold_core::EventStatus;
use oncefold_core::queue::QueueName;
use std::time::Duration;

#[tokio::test(start_paused = true)]
async fn with_the_database_away_messages_go_back_once_and_nothing_counts() {
    let world = World::empty();
    let worker = world.start("w").await;
    until("it consumes", || worker.health.is_consuming()).await;
    world.store.with_faults(|faults| faults.away = true);
    world.publish((0..20).map(|n| event(&format!("e{n}"), "o1", n))).await;
    until("the outage is noticed", || !worker.health.is_consuming()).await;
    pass(&world, Duration::from_secs(600)).await;
    assert_eq!(worker.health.problems()[0].0, "database");
    assert_eq!(world.queue.depth(&work_queue()), 20, "they wait in the queue");
    assert!(world.queue.most_returns(&work_queue()) <= 1, "returned once, not once a probe");
    assert!(world.queue.subscribed(&work_queue()) <= 2, "no consuming before a probe has succeeded");
    let probes = world.store.calls("ping");
    assert!((100..400).contains(&probes), "{probes} probes in 600 s, the longest pause being 2.5 to 5 s");

    world.store.with_faults(|faults| faults.away = false);
    until("all are applied", || world.store.recorded().len() == 20).await;
    assert!(world.store.recorded().iter().all(|e| e.status == EventStatus::Applied && e.attempts == 1));
    until("it is ready again", || worker.health.is_consuming()).await;
    worker.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_database_that_answers_but_does_not_work_does_not_wear_out_deliveries() {
    let world = World::empty();
    world.store.with_faults(|faults| faults.applies_away = true);
    world.publish([event("e1", "o1", 1)]).await;
    let worker = world.start("w").await;
    pass(&world, Duration::from_secs(30)).await;
    let returns = world.queue.most_returns(&work_queue());
    assert!((3..=14).contains(&returns), "{returns} returns in 30 s: the pauses grow though the probe succeeds");
    world.store.with_faults(|faults| faults.applies_away = false);
    world.becomes("e1", EventStatus::Applied).await;
    assert_eq!(world.recorded("e1").attempts, 1);
    worker.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn after_work_was_done_the_next_outage_is_probed_quickly_again() {
    let world = World::empty();
    let worker = world.start("w").await;
    for (id, length_s) in [("e1", 60), ("e2", 1)] {
        until("it consumes", || worker.health.is_consuming()).await;
        world.store.with_faults(|faults| faults.away = true);
        pass(&world, Duration::from_secs(length_s)).await;
        world.publish([event(id, "o1", 1)]).await;
        until("the outage is noticed", || !worker.health.is_consuming()).await;
        world.store.with_faults(|faults| faults.away = false);
        let start = tokio::time::Instant::now();
        world.becomes(id, EventStatus::Applied).await;
        let bound = Duration::from_secs(if id == "e1" { 6 } else { 2 });
        assert!(start.elapsed() < bound, "{id} {:?}", start.elapsed());
    }
    worker.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_outage_that_one_consumer_meets_stops_the_others_too() {
    let mut world = World::empty();
    world.sources.push(source("other"));
    let other = QueueName::Work(source("other").name);
    let worker = world.start("w").await;
    until("it consumes", || worker.health.is_consuming()).await;
    world.store.with_faults(|faults| (faults.applies_away, faults.away) = (true, false));
    world.publish([event("e1", "o1", 1)]).await;
    until("the outage is noticed", || !worker.health.is_consuming()).await;
    world.store.with_faults(|faults| faults.away = true);
    world.publish([message("other", "e2", r#"{"id":"e2","type":"order.updated","order":"o2","v":1}"#.into())]).await;
    pass(&world, Duration::from_secs(20)).await;
    assert_eq!((world.queue.depth(&other), world.queue.most_returns(&other)), (1, 0), "it was not even taken");
    world.store.with_faults(|faults| (faults.applies_away, faults.away) = (false, false));
    world.becomes("e2", EventStatus::Applied).await;
    worker.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_stop_does_not_wait_for_the_database() {
    let world = World::empty();
    let worker = world.start("w").await;
    until("it consumes", || worker.health.is_consuming()).await;
    world.store.with_faults(|faults| faults.away = true);
    world.publish([event("e1", "o1", 1)]).await;
    until("the outage is noticed", || !worker.health.is_consuming()).await;
    worker.stop().await.unwrap();
    assert_eq!(world.queue.depth(&work_queue()), 1);
}

#[tokio::test(start_paused = true)]
async fn a_lost_queue_is_subscribed_to_again() {
    let world = World::empty();
    let worker = world.start("w").await;
    until("it consumes", || worker.health.is_consuming()).await;
    world.queue.set_away(true);
    until("the loss is noticed", || worker.health.problems().len() == 2).await;
    let parts: Vec<String> = worker.health.problems().into_iter().map(|(part, _)| part).collect();
    assert_eq!(parts, [QueueName::Dead.to_string(), work_queue().to_string()]);
    pass(&world, Duration::from_secs(60)).await;
    world.queue.set_away(false);
    world.publish([event("e1", "o1", 1)]).await;
    world.becomes("e1", EventStatus::Applied).await;
    until("it is ready again", || worker.health.is_consuming()).await;
    worker.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_verdict_whose_ack_was_lost_is_given_once() {
    let world = World::empty();
    world.store.with_faults(|faults| faults.applies_take = Duration::from_secs(5));
    world.publish([event("e1", "o1", 1), event("e2", "o1", 2)]).await;
    let worker = world.start("w").await;
    until("the batch is being written", || world.store.calls("apply_begun") == 1).await;
    world.queue.set_away(true);
    world.becomes("e1", EventStatus::Applied).await;
    assert_eq!(world.queue.depth(&work_queue()), 2, "the acks were lost");
    world.queue.set_away(false);
    world.queue_empties(&work_queue()).await;
    until("both came again", || {
        worker.metric(r#"oncefold_worker_events_total{outcome="late",source="shop"}"#) == Some(2.0)
    })
    .await;
    assert_eq!((world.recorded("e1").attempts, world.recorded("e1").deliveries), (1, 1));
    worker.stop().await.unwrap();
}
