//! `ActStore`: replay, discard, idempotency keys.

use super::support::{actor, apply_one, body, claim_due, claim_one, discard, entity, event, later, replay};
use crate::builders::{applies, at, change, dies, event_uuid, ignored, message, repeat_of, retries};
use oncefold_core::change::Verdict;
use oncefold_core::event::EventStatus;
use oncefold_core::id::Digest;
use oncefold_core::message::Message;
use oncefold_core::reason::Reason;
use oncefold_core::store::{Actor, Answer, Idempotency, Refusal, Settled, Store};
use oncefold_core::time::Timestamp;
use std::sync::Arc;
use std::time::Duration;

/// "Puts an applied, ignored, dead or discarded event back: `queued`, generation + 1, due now, its body held until it
/// settles again. `attempts` goes on counting." A replay skips the ids, never the guard.
pub async fn an_applied_event_can_be_replayed(store: Arc<dyn Store>) {
    let s = &*store;
    let first = message("shop", "e1", "{}").build();
    let plan = || applies(vec![change("o1", 1).build()]);
    apply_one(s, at(1), &first, plan()).await;
    assert_eq!(replay(s, first.id, at(10)).await, Ok(()));
    let record = event(s, first.id).await;
    assert_eq!((record.status, record.settled_at, record.attempts), (EventStatus::Queued, None, 1));
    assert_eq!(record.changes.len(), 1, "of the last verdict that applied it");
    assert_eq!(apply_one(s, at(11), &first, plan()).await.settled, Settled::Late, "a late copy cannot overtake it");
    let due = claim_one(s, at(11)).await;
    assert_eq!(due, Message { generation: 1, attempts: 1, ..first.clone() });
    let outcome = apply_one(s, at(12), &due, plan()).await;
    assert_eq!((outcome.settled, &outcome.verdicts[..]), (Settled::Applied, &[Verdict::Duplicate][..]));
    let record = event(s, first.id).await;
    assert_eq!((record.status, record.attempts, record.deliveries), (EventStatus::Applied, 2, 1));
    let verdicts: Vec<_> = record.changes.iter().map(|c| c.verdict).collect();
    assert_eq!(verdicts, [Verdict::Duplicate], "of the last verdict only");
    assert_eq!(body(s, first.id).await.unwrap(), b"{}");
    assert_eq!(entity(s, "order", "o1").await.updated_at, at(1), "nothing moved");
}

/// Within one microsecond, again and again: the bytes stay.
pub async fn a_replay_at_the_same_moment(store: Arc<dyn Store>) {
    let s = &*store;
    let first = message("shop", "e1", "{}").build();
    apply_one(s, at(1), &first, ignored()).await;
    for _ in 0..3 {
        assert_eq!(replay(s, first.id, at(1)).await, Ok(()));
        let due = claim_one(s, at(1)).await;
        assert_eq!(apply_one(s, at(1), &due, ignored()).await.settled, Settled::Ignored);
        assert_eq!(body(s, first.id).await.unwrap(), b"{}");
    }
}

/// A dead letter whose config is mended lands; one whose is not is dead again.
pub async fn a_dead_letter_can_be_replayed(store: Arc<dyn Store>) {
    let s = &*store;
    let [lands, dies_again] = ["lands", "dies"].map(|id| message("shop", id, "{}").build());
    for message in [&lands, &dies_again] {
        apply_one(s, at(1), message, dies(Reason::MissingKey)).await;
        assert_eq!(replay(s, message.id, at(2)).await, Ok(()));
    }
    for due in claim_due(s, at(2)).await {
        let plan = if due.id == lands.id { applies(vec![change("o1", 1).build()]) } else { dies(Reason::BadKey) };
        apply_one(s, at(3), &due, plan).await;
    }
    assert_eq!(event(s, lands.id).await.status, EventStatus::Applied);
    assert_eq!(entity(s, "order", "o1").await.event, lands.id);
    let dead = event(s, dies_again.id).await;
    assert_eq!((dead.status, dead.dead_at, dead.attempts), (EventStatus::Dead, Some(at(3)), 2));
    assert_eq!(dead.error.unwrap().0, "mapping.bad_key");
    let reasons: Vec<_> = s.attempts(dies_again.id).await.unwrap().into_iter().map(|a| a.error.unwrap().0).collect();
    assert_eq!(reasons, ["mapping.missing_key", "mapping.bad_key"], "its history is kept");
}

/// "There is no such event"; "it is in a status that does not allow it": nothing was changed.
pub async fn what_cannot_be_done_is_refused(store: Arc<dyn Store>) {
    let s = &*store;
    let unknown = event_uuid(at(0));
    assert_eq!(replay(s, unknown, at(1)).await, Err(Refusal::NotFound));
    assert_eq!(discard(s, unknown, at(1)).await, Err(Refusal::NotFound));
    let retrying = message("shop", "retrying", "{}").build();
    apply_one(s, at(1), &retrying, retries(at(500))).await;
    assert_eq!(replay(s, retrying.id, at(1)).await, Err(Refusal::WrongStatus(EventStatus::Retrying)));
    assert_eq!(discard(s, retrying.id, at(1)).await, Err(Refusal::WrongStatus(EventStatus::Retrying)));
    let queued = message("shop", "queued", "{}").build();
    apply_one(s, at(1), &queued, ignored()).await;
    assert_eq!(discard(s, queued.id, at(1)).await, Err(Refusal::WrongStatus(EventStatus::Ignored)));
    assert_eq!(replay(s, queued.id, at(1)).await, Ok(()));
    let before = event(s, queued.id).await;
    assert_eq!(replay(s, queued.id, at(2)).await, Err(Refusal::WrongStatus(EventStatus::Queued)));
    assert_eq!(discard(s, queued.id, at(2)).await, Err(Refusal::WrongStatus(EventStatus::Queued)));
    assert_eq!(event(s, queued.id).await, before);
    assert_eq!(claim_due(s, at(1)).await.len(), 1, "one generation, not two");
}

/// "Makes a dead letter `discarded`": settled, and a delivery of it is only counted.
pub async fn a_dead_letter_can_be_discarded(store: Arc<dyn Store>) {
    let s = &*store;
    let first = message("shop", "e1", "{}").build();
    apply_one(s, at(1), &first, dies(Reason::BadKey)).await;
    assert_eq!(discard(s, first.id, at(2)).await, Ok(()));
    let record = event(s, first.id).await;
    assert_eq!((record.status, record.settled_at), (EventStatus::Discarded, Some(at(2))));
    assert_eq!((record.dead_at, record.error), (None, None));
    assert_eq!(discard(s, first.id, at(3)).await, Err(Refusal::WrongStatus(EventStatus::Discarded)));
    assert_eq!(apply_one(s, at(3), &repeat_of(&first), ignored()).await.settled, Settled::Repeat);
    assert_eq!(claim_due(s, later()).await, []);
    assert_eq!(s.attempts(first.id).await.unwrap().len(), 1, "its history is kept");
    assert_eq!(replay(s, first.id, at(4)).await, Ok(()));
    assert_eq!(claim_one(s, at(4)).await.body, first.body);
}

/// Of many who replay at once, one is told yes, and there is one more generation.
pub async fn replays_at_once_are_one(store: Arc<dyn Store>) {
    let first = message("shop", "e1", "{}").build();
    apply_one(&*store, at(1), &first, dies(Reason::BadKey)).await;
    let asked = (0..6).map(|_| {
        let (store, id) = (Arc::clone(&store), first.id);
        tokio::spawn(async move { replay(&*store, id, at(2)).await })
    });
    let mut done = 0;
    for answer in asked.collect::<Vec<_>>() {
        match answer.await.unwrap() {
            Ok(()) => done += 1,
            Err(refusal) => assert_eq!(refusal, Refusal::WrongStatus(EventStatus::Queued)),
        }
    }
    assert_eq!(done, 1);
    assert_eq!(claim_one(&*store, at(2)).await.generation, 1);
}

fn request(actor: &Actor, key: &str, what: &str, now: Timestamp) -> Idempotency {
    Idempotency {
        key: key.to_owned(),
        actor: actor.clone(),
        request: Digest::of(what.as_bytes()),
        now,
        expired_before: now.minus(Duration::from_secs(24 * 3600)),
    }
}

/// `Fresh`, then `InProgress`, then `Known`; `Differs` for another request; keys of different actors never meet.
pub async fn a_key_gives_the_first_answer_again(store: Arc<dyn Store>) {
    let s = &*store;
    let first = request(&actor(), "k", "POST /x", at(0));
    let answer = || Some((202, "{\"é\":1}".to_owned()));
    assert_eq!(s.begin_idempotent(&first).await.unwrap(), Answer::Fresh);
    assert_eq!(s.begin_idempotent(&first).await.unwrap(), Answer::InProgress);
    let other = request(&actor(), "k", "POST /y", at(1));
    assert_eq!(s.begin_idempotent(&other).await.unwrap(), Answer::Differs);
    s.finish_idempotent(&first, answer()).await.unwrap();
    let known = Answer::Known { status: 202, body: "{\"é\":1}".to_owned() };
    assert_eq!(s.begin_idempotent(&request(&actor(), "k", "POST /x", at(2))).await.unwrap(), known);
    assert_eq!(s.begin_idempotent(&other).await.unwrap(), Answer::Differs);
    let somebody = request(&Actor("else".into()), "k", "POST /y", at(2));
    assert_eq!(s.begin_idempotent(&somebody).await.unwrap(), Answer::Fresh);
    let another_key = request(&actor(), "K", "POST /y", at(2));
    assert_eq!(s.begin_idempotent(&another_key).await.unwrap(), Answer::Fresh);
}

/// "`None` frees the key"; "keys first used before this are forgotten".
pub async fn keys_are_freed_and_expire(store: Arc<dyn Store>) {
    let s = &*store;
    let first = request(&actor(), "k", "POST /x", at(0));
    assert_eq!(s.begin_idempotent(&first).await.unwrap(), Answer::Fresh);
    s.finish_idempotent(&first, None).await.unwrap();
    assert_eq!(s.begin_idempotent(&first).await.unwrap(), Answer::Fresh);
    s.finish_idempotent(&first, Some((200, "ok".into()))).await.unwrap();
    let day_s = 24 * 3600;
    let known = Answer::Known { status: 200, body: "ok".into() };
    assert_eq!(s.begin_idempotent(&request(&actor(), "k", "POST /x", at(day_s))).await.unwrap(), known);
    assert_eq!(s.begin_idempotent(&request(&actor(), "k", "POST /y", at(day_s + 1))).await.unwrap(), Answer::Fresh);
}

/// "A key whose first request has no answer for longer than 60 s is taken over by the same request": its process died.
pub async fn a_key_without_an_answer_is_taken_over(store: Arc<dyn Store>) {
    let s = &*store;
    let (same, other) = (|now| request(&actor(), "k", "POST /x", now), |now| request(&actor(), "k", "POST /y", now));
    assert_eq!(s.begin_idempotent(&same(at(0))).await.unwrap(), Answer::Fresh);
    assert_eq!(s.begin_idempotent(&same(at(60))).await.unwrap(), Answer::InProgress, "it may be answered yet");
    assert_eq!(s.begin_idempotent(&other(at(61))).await.unwrap(), Answer::Differs);
    assert_eq!(s.begin_idempotent(&same(at(61))).await.unwrap(), Answer::Fresh);
    assert_eq!(s.begin_idempotent(&same(at(121))).await.unwrap(), Answer::InProgress, "the second has its own 60 s");
    s.finish_idempotent(&same(at(61)), Some((200, "ok".into()))).await.unwrap();
    let known = Answer::Known { status: 200, body: "ok".into() };
    assert_eq!(s.begin_idempotent(&same(at(600))).await.unwrap(), known, "what has its answer is not taken over");
}

/// Of many who begin at once under one key, one is `Fresh`.
pub async fn a_key_is_taken_once(store: Arc<dyn Store>) {
    let asked = (0..8).map(|_| {
        let store = Arc::clone(&store);
        tokio::spawn(async move { store.begin_idempotent(&request(&actor(), "k", "POST /x", at(0))).await.unwrap() })
    });
    let mut fresh = 0;
    for answer in asked.collect::<Vec<_>>() {
        match answer.await.unwrap() {
            Answer::Fresh => fresh += 1,
            answer => assert_eq!(answer, Answer::InProgress),
        }
    }
    assert_eq!(fresh, 1);
}
