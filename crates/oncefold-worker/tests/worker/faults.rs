//! Events that the store refuses or fails on.

use crate::support::{World, event, until, work_queue};
use oncefold_core::retry::RetryPolicy;
use oncefold_core::store::ReadStore;
use oncefold_core::{Digest, EventStatus};
use std::time::Duration;

#[tokio::test(start_paused = true)]
async fn a_poison_event_never_blocks_its_neighbours() {
    let world = World::empty();
    world.store.with_faults(|faults| {
        faults.refused.insert("e3".into());
        faults.failed.insert("e5".into(), u32::MAX);
    });
    world.publish((1..=8).map(|n| event(&format!("e{n}"), &format!("o{n}"), 1))).await;
    let worker = world.start("w").await;
    for n in [1, 2, 4, 6, 7, 8] {
        world.becomes(&format!("e{n}"), EventStatus::Applied).await;
        assert_eq!(world.recorded(&format!("e{n}")).attempts, 1, "a neighbour's fault is no attempt");
    }
    world.becomes("e3", EventStatus::Dead).await;
    assert_eq!(world.reason("e3").as_deref(), Some("apply.rejected"));
    assert_eq!(world.recorded("e3").attempts, 1);
    world.becomes("e5", EventStatus::Retrying).await;
    assert_eq!(world.reason("e5").as_deref(), Some("apply.failed"));
    assert_eq!(world.store.entity_states().len(), 6);
    assert_eq!(world.queue.subscribed(&work_queue()), 1, "nothing went back to the queue");
    worker.stop().await.unwrap();
}

/// A row that others hold, a right that is missing for one table: the event waits, and nobody else.
#[tokio::test(start_paused = true)]
async fn an_event_that_the_database_keeps_from_its_write_is_retried_alone() {
    let world = World::empty();
    world.store.with_faults(|faults| faults.hindered.extend(["e1", "e4", "e5", "e6", "e8"].map(String::from)));
    world.publish((1..=8).map(|n| event(&format!("e{n}"), &format!("o{n}"), 1))).await;
    let worker = world.start("w").await;
    for n in [2, 3, 7] {
        world.becomes(&format!("e{n}"), EventStatus::Applied).await;
    }
    for n in [1, 4, 5, 6, 8] {
        world.becomes(&format!("e{n}"), EventStatus::Retrying).await;
        assert_eq!(world.reason(&format!("e{n}")).as_deref(), Some("apply.failed"));
    }
    assert_eq!(world.queue.subscribed(&work_queue()), 1, "nothing went back to the queue");
    assert_eq!(world.store.calls("ping"), 0, "the database is not taken for away");
    world.store.with_faults(|faults| faults.hindered.clear());
    for n in [1, 4, 5, 6, 8] {
        world.becomes(&format!("e{n}"), EventStatus::Applied).await;
    }
    worker.stop().await.unwrap();
}

/// Every event meets it, as where a table is locked whole: that is no fault of each, and their turn to wait is not taken.
#[tokio::test(start_paused = true)]
async fn where_every_event_is_kept_from_its_write_the_database_is_away() {
    let world = World::empty();
    let names: Vec<String> = (1..=20).map(|n| format!("e{n}")).collect();
    world.store.with_faults(|faults| faults.hindered.extend(names.clone()));
    world.publish((1..=20).map(|n| event(&format!("e{n}"), &format!("o{n}"), 1))).await;
    let worker = world.start("w").await;
    for name in &names[..3] {
        world.becomes(name, EventStatus::Retrying).await;
    }
    until("it pauses and probes", || world.store.calls("ping") > 0).await;
    world.store.with_faults(|faults| faults.hindered.clear());
    for name in &names {
        world.becomes(name, EventStatus::Applied).await;
    }
    worker.stop().await.unwrap();
}

/// One poison event of a batch costs few statements: halves, not each event alone.
#[tokio::test(start_paused = true)]
async fn a_batch_with_a_poison_event_goes_again_in_halves() {
    let world = World::empty();
    world.store.with_faults(|faults| faults.refused.insert("e77".into()));
    world.publish((1..=128).map(|n| event(&format!("e{n}"), &format!("o{n}"), 1))).await;
    let worker = world.start("w").await;
    world.becomes("e77", EventStatus::Dead).await;
    world.becomes("e128", EventStatus::Applied).await;
    assert_eq!(world.store.recorded().len(), 128);
    // The batch, two parts of each size from 64 to 1, and the setback.
    assert_eq!(world.store.calls("apply"), 1 + 2 * 7 + 1);
    worker.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_failing_event_is_retried_with_backoff_until_it_lands() {
    let mut world = World::empty();
    world.settings.retry =
        RetryPolicy { max_attempts: 60, base: Duration::from_secs(60), cap: Duration::from_secs(3600) };
    world.store.with_faults(|faults| faults.failed.insert("e1".into(), 3));
    world.publish([event("e1", "o1", 1)]).await;
    let worker = world.start("w").await;
    world.becomes("e1", EventStatus::Applied).await;
    let record = world.recorded("e1");
    assert_eq!((record.attempts, record.deliveries), (4, 1));
    let attempts = world.store.attempts(record.id).await.unwrap();
    let statuses: Vec<EventStatus> = attempts.iter().map(|a| a.status).collect();
    use EventStatus::{Applied, Retrying};
    assert_eq!(statuses, [Retrying, Retrying, Retrying, Applied]);
    for (pair, bound_s) in attempts.windows(2).zip([60, 120, 240]) {
        let waited = pair[1].at.since(pair[0].at);
        assert!(waited <= Duration::from_secs(bound_s) + Duration::from_secs(1), "{waited:?} after {:?}", pair[0]);
    }
    let waited_s = attempts[3].at.since(attempts[0].at).as_secs();
    assert!(waited_s > 5, "it was retried with hardly a pause: {waited_s} s in all, where the mean is 210");
    assert_eq!(worker.metric(r#"oncefold_retries_total{reason="apply.failed",source="shop"}"#), Some(3.0));
    assert_eq!(worker.metric(r#"oncefold_event_lag_seconds_count{source="shop"}"#), None, "not at the first try");
    worker.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_last_attempt_ends_in_a_dead_letter() {
    let mut world = World::empty();
    world.settings.retry.max_attempts = 4;
    world.store.with_faults(|faults| faults.failed.insert("e1".into(), u32::MAX));
    world.publish([event("e1", "o1", 1)]).await;
    let worker = world.start("w").await;
    world.becomes("e1", EventStatus::Dead).await;
    let record = world.recorded("e1");
    assert_eq!((record.attempts, world.reason("e1").as_deref()), (4, Some("apply.failed")));
    assert_eq!(world.store.attempts(record.id).await.unwrap().len(), 4);
    worker.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_event_whose_very_name_is_refused_is_kept_under_its_body_digest() {
    let world = World::empty();
    world.store.with_faults(|faults| faults.unspeakable.insert("e1".into()));
    let poison = event("e1", "o1", 1);
    let kept_as = format!("sha256:{}", Digest::of(&poison.body).to_hex());
    world.publish([poison, event("e2", "o2", 1)]).await;
    let worker = world.start("w").await;
    world.becomes(&kept_as, EventStatus::Dead).await;
    world.becomes("e2", EventStatus::Applied).await;
    assert_eq!(world.reason(&kept_as).as_deref(), Some("apply.rejected"));
    worker.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_batch_that_lost_against_another_is_done_again() {
    let world = World::empty();
    world.store.with_faults(|faults| faults.conflicts = 3);
    world.publish([event("e1", "o1", 1), event("e2", "o2", 1)]).await;
    let worker = world.start("w").await;
    world.becomes("e2", EventStatus::Applied).await;
    assert_eq!(world.store.calls("apply"), 4, "the same batch, not its events one by one");
    assert_eq!((world.recorded("e1").attempts, world.recorded("e2").attempts), (1, 1));
    assert_eq!(world.queue.subscribed(&work_queue()), 1);
    worker.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_setback_that_lost_against_another_stays_a_setback() {
    let world = World::empty();
    world.store.with_faults(|faults| {
        faults.refused.insert("e1".into());
        let mut applies = 0;
        faults.hook = Some(Box::new(move |method| {
            applies += u32::from(method == "apply");
            let conflict = oncefold_core::store::StoreError::Conflict("the second apply".into());
            (method == "apply" && applies == 2).then_some(oncefold_testkit::fakes::Fault::Before(conflict))
        }));
    });
    world.publish([event("e1", "o1", 1)]).await;
    let worker = world.start("w").await;
    world.becomes("e1", EventStatus::Dead).await;
    assert_eq!(world.reason("e1").as_deref(), Some("apply.rejected"));
    assert_eq!(world.store.calls("apply"), 3);
    worker.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn endless_conflicts_are_an_outage_not_an_attempt() {
    let world = World::empty();
    world.store.with_faults(|faults| faults.conflicts = 40);
    world.publish([event("e1", "o1", 1)]).await;
    let worker = world.start("w").await;
    world.becomes("e1", EventStatus::Applied).await;
    assert_eq!(world.recorded("e1").attempts, 1);
    assert!(world.store.calls("ping") >= 1, "it paused and probed");
    worker.stop().await.unwrap();
}
