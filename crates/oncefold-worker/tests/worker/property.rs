//! Whatever fails and whoever works: the entities are those of an oracle that knows nothing of batches or faults.

use crate::support::{World, message, until};
use oncefold_core::queue::{Publisher as _, QueueName};
use oncefold_core::retry::RetryPolicy;
use oncefold_core::store::StoreError;
use oncefold_core::{Clock as _, Digest, Entropy as _, EventStatus, Message};
use oncefold_testkit::builders::START;
use oncefold_testkit::fakes::{Fault, SeededEntropy, TokioClock};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// How long things fail at random.
const STORM: Duration = Duration::from_secs(20);

#[derive(Clone, Debug)]
struct Spec {
    order: u8,
    version: u8,
    kind: Kind,
    copies: u8,
    /// When it is published, within the storm.
    at_ms: u16,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Update,
    Delete,
    Ignored,
    Unmappable,
    Refused,
}

fn specs() -> impl Strategy<Value = Vec<Spec>> {
    let kind = prop_oneof![
        6 => Just(Kind::Update),
        2 => Just(Kind::Delete),
        1 => Just(Kind::Ignored),
        1 => Just(Kind::Unmappable),
        1 => Just(Kind::Refused),
    ];
    let one = (0u8..4, 0u8..5, kind, 1u8..4, 0u16..15_000).prop_map(|(order, version, kind, copies, at_ms)| Spec {
        order,
        version,
        kind,
        copies,
        at_ms,
    });
    proptest::collection::vec(one, 1..40)
}

fn body(index: usize, spec: &Spec) -> String {
    let Spec { order, version, kind, .. } = spec;
    let event_type = match kind {
        Kind::Delete => "order.deleted",
        Kind::Ignored => "refund.made",
        Kind::Update | Kind::Unmappable | Kind::Refused => "order.updated",
    };
    let version = if *kind == Kind::Unmappable { "null".to_owned() } else { version.to_string() };
    format!(r#"{{"id":"e{index}","order":"o{order}","type":"{event_type}","v":{version}}}"#)
}

/// (order -> body of the winner, none where it deletes), by comparing what the bodies say.
fn oracle(specs: &[Spec]) -> BTreeMap<String, Option<String>> {
    let mut best: BTreeMap<u8, (u8, bool, [u8; 32], usize)> = BTreeMap::new();
    for (index, spec) in specs.iter().enumerate().filter(|(_, s)| matches!(s.kind, Kind::Update | Kind::Delete)) {
        let digest = *Digest::of(body(index, spec).as_bytes()).as_bytes();
        let candidate = (spec.version, spec.kind == Kind::Delete, digest, index);
        let winner = best.entry(spec.order).or_insert(candidate);
        *winner = candidate.max(*winner);
    }
    let state = |(_, deleted, _, index): (u8, bool, [u8; 32], usize)| (!deleted).then(|| body(index, &specs[index]));
    best.into_iter().map(|(order, winner)| (format!("o{order}"), state(winner))).collect()
}

/// Every call fails now and then, before or after it was done, until the storm is over.
fn storm(clock: TokioClock, seed: u64) -> oncefold_testkit::fakes::FaultHook {
    let random = SeededEntropy::of(seed);
    Box::new(move |_| {
        let over = clock.now().since(START) > STORM;
        let error = |what: &str| what.to_owned();
        match random.next_u64() % 40 {
            _ if over => None,
            0 => Some(Fault::Before(StoreError::Unavailable(error("storm")))),
            1 => Some(Fault::After(StoreError::Unavailable(error("storm")))),
            2 | 3 => Some(Fault::Before(StoreError::Conflict(error("storm")))),
            4 => Some(Fault::Before(StoreError::Failed(error("storm")))),
            5 => Some(Fault::After(StoreError::Failed(error("storm")))),
            _ => None,
        }
    })
}

async fn publish_in_time(world: &World, specs: &[Spec]) {
    let mut sends: Vec<(u16, Message)> = vec![];
    for (index, spec) in specs.iter().enumerate() {
        for copy in 0..spec.copies {
            let sent = message("shop", &format!("e{index}"), body(index, spec));
            sends.push((spec.at_ms / u16::from(copy + 1), sent));
        }
    }
    sends.sort_by_key(|(at_ms, _)| *at_ms);
    for (at_ms, message) in sends {
        let due = START.plus(Duration::from_millis(at_ms.into()));
        until("it is due", || world.clock.now() >= due).await;
        let message = Arc::new(message);
        until_published(world, message).await;
    }
}

async fn until_published(world: &World, message: Arc<Message>) {
    while world.queue.publish(Arc::clone(&message)).await.is_err() {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

async fn weather(queue: oncefold_testkit::fakes::FakeQueue, clock: TokioClock, seed: u64) {
    let random = SeededEntropy::of(seed ^ 0xFACE);
    while clock.now().since(START) < STORM {
        tokio::time::sleep(Duration::from_millis(random.next_u64() % 4000)).await;
        queue.set_away(true);
        tokio::time::sleep(Duration::from_millis(random.next_u64() % 1000)).await;
        queue.set_away(false);
    }
}

async fn run(specs: Vec<Spec>, seed: u64) -> Result<(), TestCaseError> {
    let mut world = World::empty();
    world.settings.batch = 1 + usize::try_from(seed % 7).unwrap();
    world.settings.prefetch = 10;
    world.settings.retry =
        RetryPolicy { max_attempts: 60, base: Duration::from_millis(50), cap: Duration::from_secs(1) };
    world.settings.pace.sending_lease = Duration::from_secs(2);
    world.settings.pace.sent_lease = Duration::from_secs(5);
    let mut workers = vec![];
    for holder in ["w1", "w2", "w3"] {
        workers.push(world.start(holder).await);
    }
    world.store.with_faults(|faults| {
        faults.hook = Some(storm(world.clock, seed));
        let refused = specs.iter().enumerate().filter(|(_, spec)| spec.kind == Kind::Refused);
        faults.refused = refused.map(|(index, _)| format!("e{index}")).collect();
    });
    let weather = tokio::spawn(weather(world.queue.clone(), world.clock, seed));
    publish_in_time(&world, &specs).await;
    weather.await.unwrap();
    let end = START.plus(STORM + Duration::from_secs(60));
    until("a minute after the storm", || world.clock.now() > end).await;

    for (index, spec) in specs.iter().enumerate() {
        let expected = match spec.kind {
            Kind::Update | Kind::Delete => EventStatus::Applied,
            Kind::Ignored => EventStatus::Ignored,
            Kind::Unmappable | Kind::Refused => EventStatus::Dead,
        };
        let record = world.find(&format!("e{index}"));
        prop_assert_eq!(record.as_ref().map(|r| r.status), Some(expected), "e{}: {:?}", index, record);
        // A repeat whose ack was lost counts again: its message id is kept nowhere.
        let deliveries = record.map_or(0, |r| r.deliveries);
        prop_assert!(deliveries >= u64::from(spec.copies), "e{}: {} of {:?}", index, deliveries, spec);
    }
    let folded = world.store.entity_states().into_iter().map(|((_, key), state)| (key, state));
    prop_assert_eq!(folded.collect::<BTreeMap<_, _>>(), oracle(&specs));
    for worker in workers {
        worker.stop().await.unwrap();
    }
    let waiting = world.queue.depth(&crate::support::work_queue()) + world.queue.depth(&QueueName::Dead);
    prop_assert_eq!(waiting, 0, "every message is settled");
    prop_assert_eq!(world.store.open_trials(), 0);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn any_faults_and_any_number_of_workers_give_the_entities_of_the_oracle(specs in specs(), seed in any::<u64>()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        runtime.block_on(run(specs, seed))?;
    }
}

#[test]
fn the_oracle_knows_deletes_and_ties() {
    let spec = |version, kind| Spec { order: 1, version, kind, copies: 1, at_ms: 0 };
    let deleted = oracle(&[spec(2, Kind::Update), spec(2, Kind::Delete), spec(1, Kind::Update)]);
    assert_eq!(deleted, BTreeMap::from([("o1".to_owned(), None)]));
}
