//! `TrialStore`: suspects, tried alone.

use super::support::{apply_one, claim_one, replay};
use crate::builders::{at, dies, ignored, message, repeat_of, retries};
use oncefold_core::id::EventUuid;
use oncefold_core::message::Message;
use oncefold_core::reason::Reason;
use oncefold_core::store::{Store, StoreError, Trial, TrialStart};
use std::sync::Arc;
use std::time::Duration;

fn trial(id: EventUuid, generation: u32, holder: &str, seconds: u64) -> Trial {
    let (now, lease) = (at(seconds), Duration::from_secs(10));
    Trial { id, generation, holder: holder.to_owned(), now, lease_until: now.plus(lease) }
}

/// "Commits the mark, unless one is there": of another process it says busy until its lease; then it is taken over, as
/// long as fewer than three have begun. Of the same holder it is renewed, which is no further start.
pub async fn a_mark_says_who_tries_it(store: Arc<dyn Store>) {
    let suspect = message("shop", "e1", "{}").build();
    let begin = |holder: &'static str, seconds| {
        let (store, id) = (Arc::clone(&store), suspect.id);
        async move { store.begin_trial(&trial(id, 0, holder, seconds)).await.unwrap() }
    };
    assert_eq!(begin("one", 0).await, TrialStart::Begun);
    assert_eq!(begin("two", 5).await, TrialStart::Busy(at(10)));
    assert_eq!(begin("one", 6).await, TrialStart::Begun);
    assert_eq!(begin("two", 15).await, TrialStart::Busy(at(16)), "it was renewed");
    assert_eq!(begin("two", 16).await, TrialStart::Begun, "the first ended: a stop, an outage, or the message");
    assert_eq!(begin("one", 17).await, TrialStart::Busy(at(26)), "it is the second's now");
    assert_eq!(begin("three", 26).await, TrialStart::Begun);
    assert_eq!(begin("three", 27).await, TrialStart::Begun, "still the third");
    assert_eq!(begin("four", 36).await, TrialStart::Busy(at(37)));
    assert_eq!(begin("four", 37).await, TrialStart::Interrupted);
    assert_eq!(begin("four", 38).await, TrialStart::Interrupted, "asking does not change it");
    store.end_trial(suspect.id, 0).await.unwrap();
    assert_eq!(begin("two", 39).await, TrialStart::Begun);
    assert_eq!(begin("three", 49).await, TrialStart::Begun, "what began anew counts anew");
    store.end_trial(suspect.id, 0).await.unwrap();
    store.end_trial(suspect.id, 0).await.unwrap();
}

/// Of many who would take a mark over at once, one does, and nobody takes the message for the poison.
pub async fn a_mark_is_taken_over_once(store: Arc<dyn Store>) {
    let suspect = message("shop", "e1", "{}").build();
    for round in 0..2 {
        let takers = (0..8).map(|n| {
            let (store, trial) = (Arc::clone(&store), trial(suspect.id, 0, &format!("{round} {n}"), round * 20));
            tokio::spawn(async move {
                for _ in 0..100 {
                    match store.begin_trial(&trial).await {
                        Err(StoreError::Conflict(_)) => {}
                        start => return start.unwrap(),
                    }
                }
                panic!("a hundred conflicts");
            })
        });
        let mut begun = 0;
        for taker in takers.collect::<Vec<_>>() {
            match taker.await.unwrap() {
                TrialStart::Begun => begun += 1,
                start => assert_eq!(start, TrialStart::Busy(at(round * 20 + 10))),
            }
        }
        assert_eq!(begun, 1);
    }
}

/// A mark is of one generation.
pub async fn marks_are_apart_by_generation(store: Arc<dyn Store>) {
    let first = message("shop", "e1", "{}").build();
    assert_eq!(store.begin_trial(&trial(first.id, 0, "one", 0)).await.unwrap(), TrialStart::Begun);
    apply_one(&*store, at(1), &first, retries(at(2))).await;
    let due = claim_one(&*store, at(2)).await;
    assert_eq!(store.begin_trial(&trial(first.id, 1, "two", 3)).await.unwrap(), TrialStart::Begun);
    assert_eq!(store.begin_trial(&trial(first.id, 0, "two", 3)).await.unwrap(), TrialStart::Settled);
    apply_one(&*store, at(4), &due, ignored()).await;
    assert_eq!(store.begin_trial(&trial(first.id, 1, "two", 5)).await.unwrap(), TrialStart::Settled);
}

/// "The event `id` is known, and this generation's verdict was given": whatever it was.
pub async fn what_has_its_verdict_is_not_tried(store: Arc<dyn Store>) {
    let plans = [ignored(), retries(at(500)), dies(Reason::BadKey)];
    for (n, plan) in plans.into_iter().enumerate() {
        let first = message("shop", &format!("e{n}"), "{}").build();
        apply_one(&*store, at(1), &first, plan).await;
        let start = store.begin_trial(&trial(first.id, 0, "one", 2)).await.unwrap();
        assert_eq!(start, TrialStart::Settled, "{n}");
    }
}

/// "The event `id` is known and not `queued` in this generation, or (generation 0) another delivery of the same source,
/// event id and digest is known."
pub async fn what_is_recorded_is_told(store: Arc<dyn Store>) {
    let recorded = |message: &Message| {
        let (store, message) = (Arc::clone(&store), message.clone());
        async move { store.is_recorded(&message).await.unwrap() }
    };
    let first = message("shop", "e1", "1").build();
    assert!(!recorded(&first).await);
    apply_one(&*store, at(1), &first, dies(Reason::BadKey)).await;
    assert!(recorded(&first).await);
    assert!(recorded(&repeat_of(&first)).await);
    let other_bytes = message("shop", "e1", "2").build();
    let other_source = message("shop2", "e1", "1").build();
    assert!(!recorded(&other_bytes).await);
    assert!(!recorded(&other_source).await);
    apply_one(&*store, at(1), &other_bytes, ignored()).await;
    assert!(recorded(&other_bytes).await);
    assert!(recorded(&repeat_of(&other_bytes)).await, "a variant's repeat too");

    assert_eq!(replay(&*store, first.id, at(2)).await, Ok(()));
    let due = claim_one(&*store, at(2)).await;
    assert!(!recorded(&due).await, "it waits for a verdict");
    assert!(recorded(&Message { generation: due.generation - 1, ..due.clone() }).await, "an older copy");
    let unknown = Message { id: other_source.id, ..due.clone() };
    assert!(!recorded(&unknown).await, "of a later generation only the id counts");
    apply_one(&*store, at(3), &due, dies(Reason::BadKey)).await;
    assert!(recorded(&due).await);
}
