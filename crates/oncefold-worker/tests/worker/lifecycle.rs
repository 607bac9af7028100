//! Starting, stopping, dying.

use crate::support::{World, event, source, until, work_queue};
use oncefold_core::model::IdRule;
use oncefold_core::{EventStatus, SourceName};
use oncefold_telemetry::Metrics;
use oncefold_worker::{WorkerError, build};
use std::sync::Arc;
use std::time::Duration;

#[tokio::test(start_paused = true)]
async fn a_stop_finishes_the_batches_in_hand_and_gives_the_rest_back() {
    for writers in [1, 2] {
        let mut world = World::empty();
        (world.settings.batch, world.settings.writers) = (3, writers);
        world.store.with_faults(|faults| faults.applies_take = Duration::from_secs(3));
        world.publish((0..9).map(|n| event(&format!("e{n}"), "o1", n))).await;
        let worker = world.start("w").await;
        until("its writers are at work", || world.store.calls("apply_begun") == writers as u64).await;
        assert_eq!(world.store.calls("apply"), 0);
        worker.stop().await.unwrap();
        let recorded = world.store.recorded();
        assert!(recorded.iter().all(|e| e.status == EventStatus::Applied && e.attempts == 1));
        assert_eq!(recorded.len(), 3 * writers, "the batches in hand are finished, no other begun");
        assert_eq!(world.queue.depth(&work_queue()), 9 - 3 * writers, "what it finished is acked, the rest is back");
    }
}

#[tokio::test(start_paused = true)]
async fn batches_are_written_at_once_and_settled_in_order() {
    let mut world = World::empty();
    (world.settings.batch, world.settings.writers) = (3, 2);
    world.store.with_faults(|faults| faults.applies_take = Duration::from_secs(9));
    world.publish((0..3).map(|n| event(&format!("e{n}"), "o1", n))).await;
    let worker = world.start("w").await;
    until("the first batch is being written", || world.store.calls("apply_begun") == 1).await;
    world.store.with_faults(|faults| faults.applies_take = Duration::from_secs(3));
    world.publish((3..12).map(|n| event(&format!("e{n}"), "o1", n))).await;
    until("a later batch is written", || world.store.calls("apply") == 1).await;
    assert_eq!((world.store.calls("apply_begun"), world.recorded("e3").attempts), (2, 1), "two at once, no more");
    assert_eq!(world.queue.contents(&work_queue()), 12, "the one before is not settled yet");
    until("all are settled", || world.queue.contents(&work_queue()) == 0).await;
    assert_eq!((world.store.calls("apply"), world.store.recorded().len()), (4, 12));
    worker.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_hard_stop_drops_the_batch_and_costs_no_attempt() {
    let world = World::empty();
    world.store.with_faults(|faults| faults.applies_take = Duration::from_secs(3600));
    world.publish([event("e1", "o1", 1)]).await;
    let worker = world.start("w").await;
    until("the batch is being written", || world.store.calls("apply_begun") == 1).await;
    worker.soft.cancel();
    worker.hard.cancel();
    worker.ended().await.unwrap();
    assert_eq!((world.store.recorded().len(), world.queue.depth(&work_queue())), (0, 1));

    world.store.with_faults(|faults| faults.applies_take = Duration::ZERO);
    let worker = world.start("w2").await;
    world.becomes("e1", EventStatus::Applied).await;
    assert_eq!(world.recorded("e1").attempts, 1);
    worker.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_task_that_panics_takes_the_role_down() {
    let world = World::empty();
    world.store.with_faults(|faults| faults.panics.insert("e1".into()));
    world.publish([event("e1", "o1", 1)]).await;
    let error = world.start("w").await.ended().await.unwrap_err();
    assert!(matches!(error, WorkerError::TaskDied { .. }), "{error:?}");
    let text = error.to_string();
    assert!(text.contains("the consumer of shop") && text.contains("poison: e1"), "{text}");
    assert_eq!(world.queue.depth(&work_queue()), 1, "the message is back");
}

#[tokio::test(start_paused = true)]
async fn an_outdated_config_stops_the_worker() {
    let world = World::empty();
    let worker = world.start("w").await;
    world.store.with_faults(|faults| faults.rules_behind = true);
    world.publish([event("e1", "o1", 1)]).await;
    let error = worker.ended().await.unwrap_err();
    assert!(matches!(error, WorkerError::RulesBehind), "{error:?}");
    assert_eq!(world.queue.depth(&work_queue()), 1);
}

#[tokio::test(start_paused = true)]
async fn rules_that_changed_without_their_epoch_do_not_start() {
    let mut world = World::empty();
    world.start("before").await.stop().await.unwrap();
    world.sources[0].id = IdRule::BodyDigest;
    let start = async |world: &World| build(world.parts("after", Arc::new(Metrics::register("0").unwrap()))).await;
    let error = start(&world).await.err().expect("it does not start");
    assert!(error.to_string().contains("Set `epoch = 2`"), "{error}");
    world.sources[0].projections[0].epoch = 2;
    assert!(start(&world).await.is_ok());
    world.sources[0] = source("shop");
    let error = start(&world).await.err().expect("it does not start");
    assert!(error.to_string().contains("the store knows epoch 2"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_source_that_does_not_exist_cannot_be_chosen() {
    let mut world = World::empty();
    world.settings.only_sources = Some(vec![SourceName::parse("shpo").unwrap()]);
    let error = build(world.parts("w", Arc::new(Metrics::register("0").unwrap()))).await.err().expect("an error");
    assert!(error.to_string().contains("no source `shpo`"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn it_is_ready_once_it_consumes() {
    let world = World::empty();
    let worker = build(world.parts("w", Arc::new(Metrics::register("0").unwrap()))).await.unwrap();
    assert_eq!(worker.health().problems(), [(work_queue().to_string(), "not consuming yet".to_owned())]);
    let running = world.start("w").await;
    until("it consumes", || running.health.is_consuming()).await;
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_next_batch_is_taken_in_while_one_is_written() {
    let mut world = World::empty();
    (world.settings.batch, world.settings.writers) = (2, 1);
    world.settings.prefetch = 2;
    world.store.with_faults(|faults| faults.applies_take = Duration::from_secs(1));
    world.publish((0..8).map(|n| event(&format!("e{n}"), "o1", n))).await;
    let narrow = time_to_apply_all(&world).await;

    let mut world = World::empty();
    (world.settings.batch, world.settings.writers) = (2, 1);
    world.settings.linger = Duration::from_millis(900);
    world.store.with_faults(|faults| faults.applies_take = Duration::from_secs(1));
    // Seven: the last batch lingers, which costs nothing while the one before is written.
    world.publish((0..7).map(|n| event(&format!("e{n}"), "o1", n))).await;
    let wide = time_to_apply_all(&world).await;
    assert!(wide < narrow + Duration::from_millis(300), "{wide:?} against {narrow:?}: the linger was not overlapped");
}

async fn time_to_apply_all(world: &World) -> Duration {
    let events = world.queue.depth(&work_queue());
    let start = tokio::time::Instant::now();
    let worker = world.start("w").await;
    until("all are applied", || world.store.recorded().len() == events).await;
    let taken = start.elapsed();
    worker.stop().await.unwrap();
    taken
}
