//! `ScheduleStore` and the history of attempts.

use super::support::{apply, apply_one, body, claim_due, claim_one, discard, event, later, replay};
use crate::builders::{applies, at, change, dies, event_uuid, ignored, item, message, repeat_of, retries};
use oncefold_core::event::EventStatus;
use oncefold_core::message::{Facts, Message};
use oncefold_core::reason::Reason;
use oncefold_core::store::{ClaimDue, Settled, Store};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// "Events that are `retrying` with `next_attempt_at <= now` … become `queued` in the next generation, leased. Gives
/// them as messages of that generation, with their attempts so far": as they came, byte for byte.
pub async fn what_is_due_comes_as_it_was(store: Arc<dyn Store>) {
    let facts = Facts {
        trace_id: "a".repeat(32),
        content_type: Some("text/x-odd".into()),
        headers: vec![("x-shop".into(), "é \" \\".into()), ("x-shop".into(), "again".into())],
        query: "a=1&b=%00".into(),
        scheme: "hmac".into(),
        secret_index: Some(1),
    };
    let raw: Vec<u8> = (0..=255).chain([0, 0]).collect();
    let first = message("shop", "e1", raw).facts(&facts).received_at(at(3)).build();
    apply_one(&*store, at(4), &first, retries(at(10))).await;
    assert_eq!(claim_due(&*store, at(10).minus(Duration::from_micros(1))).await, []);
    let due = claim_one(&*store, at(10)).await;
    assert_eq!(due, Message { generation: 1, attempts: 1, ..first.clone() });
    let record = event(&*store, first.id).await;
    assert_eq!((record.status, record.next_attempt_at, record.error), (EventStatus::Queued, None, None));
    assert_eq!(claim_due(&*store, at(11)).await, [], "it is leased");
}

/// "… or `queued` with a lease that has run out, which stay in their generation": sent again until somebody gives a
/// verdict, which a copy that was long on its way may be given too.
pub async fn a_lease_that_ran_out_is_due_again(store: Arc<dyn Store>) {
    let first = message("shop", "e1", "{}").build();
    apply_one(&*store, at(1), &first, retries(at(2))).await;
    let mut copies = vec![];
    for seconds in [2, 62, 122] {
        assert_eq!(claim_due(&*store, at(seconds).minus(Duration::from_micros(1))).await, []);
        let due = claim_one(&*store, at(seconds)).await;
        assert_eq!((due.generation, due.attempts), (1, 1), "sending is no attempt");
        copies.push(due);
    }
    let mut outcomes = vec![];
    for copy in &copies {
        outcomes.push(apply_one(&*store, at(123), copy, ignored()).await.settled);
    }
    assert_eq!(outcomes, [Settled::Ignored, Settled::Late, Settled::Late]);
    assert_eq!(claim_due(&*store, later()).await, []);
    assert_eq!(replay(&*store, first.id, at(200)).await, Ok(()));
    assert_eq!(apply_one(&*store, at(201), &copies[0], ignored()).await.settled, Settled::Late, "a replay is another");
    assert_eq!(claim_one(&*store, at(201)).await.generation, 2);
}

/// "Oldest due first", at most `limit`, leases and retries alike.
pub async fn the_oldest_due_comes_first(store: Arc<dyn Store>) {
    let mut messages = vec![];
    for (n, due) in [30, 10, 20, 40].into_iter().enumerate() {
        let message = message("shop", &format!("e{n}"), "{}").build();
        apply_one(&*store, at(1), &message, retries(at(due))).await;
        messages.push(message);
    }
    let stranded = message("shop", "stranded", "{}").build();
    apply_one(&*store, at(1), &stranded, dies(Reason::BadKey)).await;
    assert_eq!(replay(&*store, stranded.id, at(15)).await, Ok(()));
    let take = |limit| {
        let store = Arc::clone(&store);
        async move {
            let claim = ClaimDue { now: at(35), lease_until: later(), limit };
            store.claim_due(claim).await.unwrap().into_iter().map(|m| m.event_id).collect::<Vec<_>>()
        }
    };
    assert_eq!(take(3).await, ["e1", "stranded", "e2"]);
    assert_eq!(take(3).await, ["e0"]);
}

/// "Many may run: each claim takes other events."
pub async fn claims_at_once_take_other_events(store: Arc<dyn Store>) {
    let messages: Vec<_> = (0..200).map(|n| message("shop", &format!("e{n}"), "{}").build()).collect();
    apply(&*store, at(1), messages.iter().map(|m| item(m, retries(at(2)))).collect()).await;
    let takers = (0..4).map(|_| {
        let store = Arc::clone(&store);
        tokio::spawn(async move {
            let mut taken = vec![];
            for _ in 0..20 {
                let claim = ClaimDue { now: at(3), lease_until: later(), limit: 7 };
                match store.claim_due(claim).await {
                    Err(oncefold_core::store::StoreError::Conflict(_)) => {}
                    due => taken.extend(due.unwrap().into_iter().map(|m| (m.id, m.generation))),
                }
            }
            taken
        })
    });
    let mut taken = vec![];
    for taker in takers.collect::<Vec<_>>() {
        taken.extend(taker.await.unwrap());
    }
    taken.extend(claim_due(&*store, at(3)).await.into_iter().map(|m| (m.id, m.generation)));
    let distinct: BTreeSet<_> = taken.iter().copied().collect();
    assert_eq!((taken.len(), distinct.len()), (200, 200), "each event was taken once");
    assert!(distinct.iter().all(|(_, generation)| *generation == 1));
}

/// "Lengthens the leases of events whose publish was confirmed": of that generation, still queued; never shortens.
pub async fn leases_are_lengthened(store: Arc<dyn Store>) {
    let [a, b, c] = ["a", "b", "c"].map(|id| message("shop", id, "{}").build());
    apply(&*store, at(1), [&a, &b, &c].map(|m| item(m, retries(at(2)))).to_vec()).await;
    assert_eq!(claim_due(&*store, at(2)).await.len(), 3);
    let settled = Message { generation: 1, ..c.clone() };
    apply_one(&*store, at(3), &settled, ignored()).await;
    let sent = [(a.id, 1), (b.id, 7), (c.id, 1), (event_uuid(at(0)), 1)];
    store.extend_leases(&sent, at(500)).await.unwrap();
    let due: Vec<_> = claim_due(&*store, at(100)).await.into_iter().map(|m| m.event_id).collect();
    assert_eq!(due, ["b"], "a is extended, b was another generation, c is settled");
    store.extend_leases(&[(a.id, 1)], at(50)).await.unwrap();
    assert!(!claim_due(&*store, at(499)).await.iter().any(|m| m.id == a.id), "a lease is never shortened");
    assert!(claim_due(&*store, at(500)).await.iter().any(|m| m.id == a.id));
    store.extend_leases(&[], at(500)).await.unwrap();
}

/// "`Setback::Retry` → an attempt row …; `Setback::Dead` → an attempt row …; a success after a failure writes one", and
/// history is kept through replay.
pub async fn attempts_are_kept_in_order(store: Arc<dyn Store>) {
    let s = &*store;
    let first = message("shop", "e1", "{}").build();
    apply_one(s, at(1), &first, retries(at(2))).await;
    let due = claim_one(s, at(2)).await;
    assert_eq!(apply_one(s, at(3), &due, retries(at(4))).await.settled, Settled::Retrying);
    let due = claim_one(s, at(4)).await;
    assert_eq!(due.attempts, 2);
    assert_eq!(apply_one(s, at(5), &due, dies(Reason::FutureVersion)).await.settled, Settled::Dead);
    assert_eq!(event(s, first.id).await.dead_at, Some(at(5)));
    assert_eq!(replay(s, first.id, at(6)).await, Ok(()));
    let due = claim_one(s, at(6)).await;
    assert_eq!(due.attempts, 3, "attempts go on counting");
    assert_eq!(apply_one(s, at(7), &due, dies(Reason::BadKey)).await.settled, Settled::Dead);
    assert_eq!(replay(s, first.id, at(8)).await, Ok(()));
    let due = claim_one(s, at(8)).await;
    let outcome = apply_one(s, at(9), &due, applies(vec![change("o1", 1).build()])).await;
    assert_eq!(outcome.settled, Settled::Applied);
    assert_eq!(event(s, first.id).await.attempts, 5);

    let kept = s.attempts(first.id).await.unwrap();
    let failed = ("apply.failed", "the database failed");
    let expected = [
        (1, at(1), EventStatus::Retrying, Some(failed)),
        (2, at(3), EventStatus::Retrying, Some(failed)),
        (3, at(5), EventStatus::Dead, Some(("mapping.future_version", "it cannot be mapped"))),
        (4, at(7), EventStatus::Dead, Some(("mapping.bad_key", "it cannot be mapped"))),
        (5, at(9), EventStatus::Applied, None),
    ];
    let shown: Vec<_> = kept
        .iter()
        .map(|a| (a.attempt, a.at, a.status, a.error.as_ref().map(|(reason, message)| (&**reason, &**message))))
        .collect();
    assert_eq!(shown, expected);
}

/// "A first-try success writes no attempt row."
pub async fn a_success_at_once_keeps_no_attempt(store: Arc<dyn Store>) {
    let [a, b] = ["a", "b"].map(|id| message("shop", id, "{}").build());
    apply(&*store, at(1), vec![item(&a, applies(vec![change("o1", 1).build()])), item(&b, ignored())]).await;
    apply_one(&*store, at(2), &repeat_of(&a), ignored()).await;
    assert_eq!(store.attempts(a.id).await.unwrap(), []);
    assert_eq!(store.attempts(b.id).await.unwrap(), []);
    assert_eq!(store.attempts(event_uuid(at(0))).await.unwrap(), []);
}

/// Bytes are there through every status, exactly: NULs, invalid UTF-8, nothing at all, a megabyte.
pub async fn bodies_are_exact_in_every_status(store: Arc<dyn Store>) {
    let s = &*store;
    let bodies: [Vec<u8>; 4] = [b"{\"a\":\"\0\xFF\xFE\xED\xA0\x80\"}".to_vec(), vec![], vec![0; 3], {
        (0..1_048_576u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
    }];
    for (n, bytes) in bodies.into_iter().enumerate() {
        let first = message("shop", &format!("e{n}"), bytes.clone()).build();
        apply_one(s, at(1), &first, retries(at(2))).await;
        assert!(body(s, first.id).await == Some(bytes.clone()), "retrying {n}");
        let due = claim_one(s, at(2)).await;
        assert!(due.body == bytes && body(s, first.id).await == Some(bytes.clone()), "queued {n}");
        apply_one(s, at(3), &due, dies(Reason::BadKey)).await;
        assert!(body(s, first.id).await == Some(bytes.clone()), "dead {n}");
        assert_eq!(discard(s, first.id, at(4)).await, Ok(()));
        assert!(body(s, first.id).await == Some(bytes.clone()), "discarded {n}");
        assert_eq!(replay(s, first.id, at(5)).await, Ok(()));
        let due = claim_one(s, at(5)).await;
        apply_one(s, at(6), &due, ignored()).await;
        assert!(body(s, first.id).await == Some(bytes.clone()), "ignored {n}");
        let stored = s.body(first.id).await.unwrap().unwrap();
        assert_eq!(stored.content_type.as_deref(), Some("application/json"));
        assert_eq!(event(s, first.id).await.facts, first.facts.decode());
    }
    assert_eq!(body(s, event_uuid(at(0))).await, None);
}
