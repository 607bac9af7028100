//! Dead letters: recorded ones, suspects, and what only looks like ours.

use crate::support::{World, event, pass, until};
use oncefold_core::queue::{Death, QueueName, Unreadable};
use oncefold_core::store::{StoreError, Trial, TrialStart, TrialStore};
use oncefold_core::{Clock, EventStatus, Message};
use oncefold_testkit::fakes::Fault;
use oncefold_worker::WorkerError;
use std::time::Duration;

fn suspects(world: &World, ids: &[&str]) -> Vec<Message> {
    let letters: Vec<Message> = ids.iter().map(|id| event(id, id, 1)).collect();
    letters.iter().for_each(|letter| world.queue.put_letter(letter.clone(), Death::DeliveryLimit));
    letters
}

#[tokio::test(start_paused = true)]
async fn innocent_suspects_are_applied_alone() {
    let world = World::empty();
    suspects(&world, &["e1", "e2", "e3"]);
    let worker = world.start("w").await;
    world.becomes("e3", EventStatus::Applied).await;
    world.queue_empties(&QueueName::Dead).await;
    worker.stop().await.unwrap();
    assert_eq!(world.store.calls("apply"), 3, "each in a transaction of its own");
    assert_eq!((world.store.recorded().len(), world.store.open_trials()), (3, 0));
    assert_eq!(world.queue.depth(&QueueName::Dead), 0);
}

#[tokio::test(start_paused = true)]
async fn the_poison_among_the_suspects_dies_and_no_neighbour_does() {
    let world = World::empty();
    world.store.with_faults(|faults| faults.panics.insert("e2".into()));
    let letters = suspects(&world, &["e1", "e2", "e3", "e4"]);
    for holder in ["w1", "w2", "w3"] {
        let worker = world.start(holder).await;
        until("it dies", || worker.role.is_finished()).await;
        let error = worker.ended().await.unwrap_err();
        assert!(matches!(&error, WorkerError::TaskDied { task, .. } if task == "recorder"), "{error:?}");
        assert_eq!(world.status("e1"), Some(EventStatus::Applied), "it came before the poison");
        assert_eq!(world.status("e2"), None, "one that ended may have had its own reasons: {holder}");
    }

    let worker = world.start("w4").await;
    world.becomes("e2", EventStatus::Dead).await;
    assert_eq!(world.reason("e2").as_deref(), Some("poison.delivery_limit"));
    assert_eq!(world.recorded("e2").id, letters[1].id);
    for innocent in ["e3", "e4"] {
        world.becomes(innocent, EventStatus::Applied).await;
    }
    worker.stop().await.unwrap();
    assert_eq!((world.queue.depth(&QueueName::Dead), world.store.open_trials()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_message_that_kills_workers_ends_as_the_only_dead_letter() {
    let world = World::empty();
    world.store.with_faults(|faults| faults.panics.insert("poison".into()));
    world.publish([event("e1", "o1", 1), event("poison", "o2", 1), event("e2", "o3", 1)]).await;
    let mut restarts = 0;
    let worker = loop {
        let worker = world.start(&format!("w{restarts}")).await;
        until("it settles all, or dies", || worker.role.is_finished() || world.status("e2").is_some()).await;
        if !worker.role.is_finished() && world.status("poison").is_some() {
            break worker;
        }
        until("it dies, or the poison is recorded", || worker.role.is_finished() || world.status("poison").is_some())
            .await;
        if !worker.role.is_finished() {
            break worker;
        }
        restarts += 1;
        assert!(restarts < 40, "the poison goes round and round");
    };
    world.becomes("poison", EventStatus::Dead).await;
    assert_eq!(world.reason("poison").as_deref(), Some("poison.delivery_limit"));
    world.becomes("e1", EventStatus::Applied).await;
    world.becomes("e2", EventStatus::Applied).await;
    assert!(restarts > 20, "the broker gave it up after 20 returns, not before: {restarts}");
    worker.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_letter_that_another_process_tries_is_waited_for() {
    let world = World::empty();
    let letters = suspects(&world, &["e1"]);
    let now = world.clock.now();
    let theirs = Trial {
        id: letters[0].id,
        generation: 0,
        holder: "other".into(),
        now,
        lease_until: now.plus(Duration::from_secs(60)),
    };
    assert_eq!(world.store.begin_trial(&theirs).await.unwrap(), TrialStart::Begun);
    let worker = world.start("w").await;
    pass(&world, Duration::from_secs(50)).await;
    assert_eq!(world.store.recorded().len(), 0, "it is theirs while their lease runs");
    world.store.end_trial(letters[0].id, 0).await.unwrap();
    world.becomes("e1", EventStatus::Applied).await;
    worker.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_stop_during_a_trial_makes_nobody_the_poison() {
    let world = World::empty();
    suspects(&world, &["e1"]);
    world.store.with_faults(|faults| faults.applies_away = true);
    let stopped = world.start("w1").await;
    until("the trial has begun", || world.store.open_trials() > 0).await;
    stopped.stop().await.unwrap();
    assert_eq!(world.store.open_trials(), 1, "the mark stands");
    world.store.with_faults(|faults| faults.applies_away = false);
    let worker = world.start("w2").await;
    world.becomes("e1", EventStatus::Applied).await;
    worker.stop().await.unwrap();
    assert_eq!((world.recorded("e1").attempts, world.store.open_trials()), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn an_outage_during_a_trial_makes_nobody_the_poison() {
    let world = World::empty();
    suspects(&world, &["e1", "e2"]);
    world.store.with_faults(|faults| faults.applies_away = true);
    let (first, second) = (world.start("w1").await, world.start("w2").await);
    until("a trial has begun", || world.store.open_trials() > 0).await;
    world.store.with_faults(|faults| faults.away = true);
    pass(&world, Duration::from_secs(900)).await;
    world.store.with_faults(|faults| (faults.away, faults.applies_away) = (false, false));
    for innocent in ["e1", "e2"] {
        world.becomes(innocent, EventStatus::Applied).await;
        assert_eq!(world.recorded(innocent).attempts, 1);
    }
    until("the marks are gone", || world.store.open_trials() == 0).await;
    first.stop().await.unwrap();
    second.stop().await.unwrap();
    assert_eq!(world.queue.depth(&QueueName::Dead), 0);
}

#[tokio::test(start_paused = true)]
async fn a_suspect_that_was_applied_before_is_done_with() {
    let world = World::empty();
    let applied = event("e1", "o1", 1);
    world.publish([applied.clone()]).await;
    world.queue.put_letter(applied, Death::DeliveryLimit);
    let worker = world.start("w").await;
    world.becomes("e1", EventStatus::Applied).await;
    world.queue_empties(&QueueName::Dead).await;
    worker.stop().await.unwrap();
    assert_eq!((world.recorded("e1").attempts, world.recorded("e1").deliveries), (1, 1));
    assert_eq!((world.queue.depth(&QueueName::Dead), world.store.open_trials()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_rejected_letter_without_a_record_gets_its_verdict_here() {
    let world = World::empty();
    world.queue.put_letter(event("e1", "o1", 1), Death::Rejected);
    let worker = world.start("w").await;
    world.becomes("e1", EventStatus::Applied).await;
    worker.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_mark_that_could_not_be_removed_is_removed_later() {
    let world = World::empty();
    let mut left = 3;
    world.store.with_faults(|faults| {
        faults.hook = Some(Box::new(move |method| {
            let fails = method == "end_trial" && left > 0;
            left -= i32::from(fails);
            fails.then(|| Fault::Before(StoreError::Unavailable("gone for a moment".into())))
        }));
    });
    suspects(&world, &["e1"]);
    let worker = world.start("w").await;
    world.becomes("e1", EventStatus::Applied).await;
    until("the mark is gone", || world.store.open_trials() == 0).await;
    assert_eq!(world.recorded("e1").attempts, 1);
    worker.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_suspect_that_fails_is_retried_like_any_event() {
    let world = World::empty();
    world.store.with_faults(|faults| faults.failed.insert("e1".into(), 2));
    suspects(&world, &["e1"]);
    let worker = world.start("w").await;
    world.becomes("e1", EventStatus::Applied).await;
    assert_eq!(world.recorded("e1").attempts, 3);
    worker.stop().await.unwrap();
}

/// What a newer version wrote is not ours to forget: it stays until a worker that reads it is there. Nothing waits
/// behind it.
#[tokio::test(start_paused = true)]
async fn a_letter_of_a_newer_version_stays_and_holds_nothing_up() {
    let world = World::empty();
    const NEWER: usize = 100;
    for _ in 0..NEWER {
        world.queue.put_unreadable(QueueName::Dead, Unreadable::Newer("frame \"zstd\"".to_owned()));
    }
    suspects(&world, &["e1"]);
    let worker = world.start("w").await;
    world.becomes("e1", EventStatus::Applied).await;
    let says_upgrade = || worker.health.problems().iter().any(|(_, why)| why.contains("upgrade"));
    until("it says what to do", says_upgrade).await;
    for _ in 0..5 {
        pass(&world, Duration::from_secs(70)).await;
        assert_eq!(world.queue.contents(&QueueName::Dead), NEWER);
    }
    until("it says so again", says_upgrade).await;
    suspects(&world, &["e2"]);
    world.becomes("e2", EventStatus::Applied).await;
    worker.stop().await.unwrap();
    assert_eq!(world.queue.depth(&QueueName::Dead), NEWER);
}
