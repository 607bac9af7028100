//! Consuming while nothing fails.

use crate::support::{TRACE, World, event, message, source, until, work_queue};
use oncefold_core::EventStatus;
use oncefold_core::queue::QueueName;
use oncefold_testkit::builders::repeat_of;
use std::io::Write;
use std::sync::Mutex;

#[tokio::test(start_paused = true)]
async fn events_are_folded_and_acked() {
    let world = World::empty();
    world.publish([event("e2", "o1", 2), event("e1", "o1", 1), event("e3", "o2", 1)]).await;
    world.publish([message("shop", "e4", r#"{"id":"e4","type":"refund.made"}"#.into())]).await;
    let worker = world.start("w").await;
    world.becomes("e4", EventStatus::Ignored).await;
    let entities = world.store.entity_states();
    let state = |key: &str| entities[&("order".to_owned(), key.to_owned())].clone().unwrap();
    assert!(state("o1").contains(r#""v":2"#), "{}", state("o1"));
    assert!(state("o2").contains(r#""v":1"#));
    assert_eq!(worker.metric(r#"oncefold_worker_events_total{outcome="applied",source="shop"}"#), Some(3.0));
    assert_eq!(worker.metric(r#"oncefold_worker_events_total{outcome="ignored",source="shop"}"#), Some(1.0));
    assert_eq!(worker.metric(r#"oncefold_changes_total{entity="order",verdict="applied"}"#), Some(2.0));
    assert_eq!(worker.metric(r#"oncefold_changes_total{entity="order",verdict="stale"}"#), Some(1.0));
    assert_eq!(worker.metric(r#"oncefold_event_lag_seconds_count{source="shop"}"#), Some(3.0));
    assert_eq!(worker.metric("oncefold_worker_batch_events_count"), Some(1.0), "one batch, one transaction");
    worker.stop().await.unwrap();
    assert_eq!(world.queue.depth(&work_queue()), 0, "all are acked: a stop gives nothing back");
}

#[tokio::test(start_paused = true)]
async fn a_repeat_is_acked_and_counted() {
    let world = World::empty();
    let first = event("e1", "o1", 1);
    world.publish([first.clone(), repeat_of(&first), first]).await;
    let worker = world.start("w").await;
    world.queue_empties(&work_queue()).await;
    world.becomes("e1", EventStatus::Applied).await;
    assert_eq!(world.recorded("e1").deliveries, 2, "a copy of a message is no delivery");
    assert_eq!(worker.metric(r#"oncefold_worker_events_total{outcome="repeat",source="shop"}"#), Some(1.0));
    assert_eq!(worker.metric(r#"oncefold_worker_events_total{outcome="late",source="shop"}"#), Some(1.0));
    worker.stop().await.unwrap();
    assert_eq!(world.queue.depth(&work_queue()), 0);
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_mapped_is_dead_with_its_reason_and_its_letter_is_recorded() {
    let world = World::empty();
    world.publish([message("shop", "e1", r#"{"id":"e1","type":"order.updated","order":"o1"}"#.into())]).await;
    let worker = world.start("w").await;
    world.becomes("e1", EventStatus::Dead).await;
    assert_eq!(world.reason("e1").as_deref(), Some("mapping.missing_version"));
    world.queue_empties(&QueueName::Dead).await;
    assert_eq!(
        worker.metric(r#"oncefold_dead_lettered_total{reason="mapping.missing_version",source="shop"}"#),
        Some(1.0)
    );
    worker.stop().await.unwrap();
    assert_eq!(world.queue.depth(&QueueName::Dead), 0, "the letter was rejected, then recorded and acked");
    assert_eq!(world.store.calls("is_recorded"), 1, "it came by the dead letters' queue");
    assert_eq!(world.store.calls("begin_trial"), 0, "a recorded letter is no suspect");
}

#[tokio::test(start_paused = true)]
async fn what_is_none_of_ours_goes_to_the_dead_letters_and_holds_nobody_up() {
    let world = World::empty();
    world.publish([event("e1", "o1", 1)]).await;
    world.queue.put_foreign(work_queue(), "message 17 has no oncefold-source header");
    world.publish([event("e2", "o2", 1)]).await;
    let worker = world.start("w").await;
    world.becomes("e1", EventStatus::Applied).await;
    world.becomes("e2", EventStatus::Applied).await;
    let foreign =
        |source| worker.metric(&format!(r#"oncefold_worker_events_total{{outcome="foreign",source="{source}"}}"#));
    until("the recorder has seen it too", || foreign("unknown") == Some(1.0)).await;
    assert_eq!(foreign("shop"), Some(1.0));
    world.queue_empties(&QueueName::Dead).await;
    worker.stop().await.unwrap();
    assert_eq!(world.queue.depth(&work_queue()) + world.queue.depth(&QueueName::Dead), 0);
    assert_eq!(world.store.recorded().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_removed_source_is_still_consumed_and_its_events_are_parked() {
    let mut world = World::empty();
    world.sources.push(source("old"));
    world.start("before").await.stop().await.unwrap();
    world.sources.pop();
    world.publish([message("old", "e1", r#"{"id":"e1","type":"order.updated","order":"o1","v":1}"#.into())]).await;
    let worker = world.start("after").await;
    world.becomes("e1", EventStatus::Dead).await;
    assert_eq!(world.reason("e1").as_deref(), Some("config.unknown_source"));
    worker.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_worker_of_one_source_leaves_the_others() {
    let mut world = World::empty();
    world.sources.push(source("other"));
    world.settings.only_sources = Some(vec![source("other").name]);
    world.publish([event("e1", "o1", 1)]).await;
    world.publish([message("other", "e2", r#"{"id":"e2","type":"order.updated","order":"o2","v":1}"#.into())]).await;
    let worker = world.start("w").await;
    world.becomes("e2", EventStatus::Applied).await;
    worker.stop().await.unwrap();
    assert_eq!(world.queue.subscribed(&work_queue()), 0);
    assert_eq!(world.queue.depth(&work_queue()), 1);
}

/// The lines that name an event of the test below. Every test of the binary logs through one subscriber: which call
/// sites are enabled is cached for all threads, so that one of a single test would miss lines now and then.
static LINES: Mutex<Vec<String>> = Mutex::new(vec![]);

struct Lines;

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let line = String::from_utf8_lossy(bytes);
        if line.contains("logged-") {
            LINES.lock().unwrap().push(line.into_owned());
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn every_verdict_is_one_line_with_the_deliverys_trace_id_and_no_body() {
    let subscriber = tracing_subscriber::fmt().json().flatten_event(true).with_writer(|| Lines).finish();
    tracing::subscriber::set_global_default(subscriber).unwrap();
    let world = World::empty();
    world.publish([event("logged-1", "secret-order", 1)]).await;
    world
        .publish([message("shop", "logged-2", r#"{"id":"logged-2","type":"order.updated","order":"o1"}"#.into())])
        .await;
    let worker = world.start("w").await;
    world.becomes("logged-2", EventStatus::Dead).await;
    world.becomes("logged-1", EventStatus::Applied).await;
    worker.stop().await.unwrap();

    let text = LINES.lock().unwrap().concat();
    assert!(!text.contains("secret-order"), "{text}");
    let verdicts: Vec<serde_json::Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .filter(|line: &serde_json::Value| line["message"] == "verdict")
        .collect();
    let [applied, dead] = &verdicts[..] else { panic!("two events, two lines: {verdicts:?}") };
    assert_eq!(
        (&applied["level"], &applied["outcome"], &applied["event_id"]),
        (&"INFO".into(), &"applied".into(), &"logged-1".into())
    );
    assert_eq!(applied["event"], world.recorded("logged-1").id.to_string());
    assert_eq!((&dead["level"], &dead["outcome"]), (&"WARN".into(), &"dead".into()));
    assert_eq!(dead["reason"], "mapping.missing_version");
    assert!(verdicts.iter().all(|line| line["trace"] == TRACE && line["source"] == "shop"), "{verdicts:?}");
}
