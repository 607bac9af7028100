//! `DutyStore` and `Probe`.

use super::support::{all_events, apply, apply_one, body, claim_due, discard, entity, event, later, replay};
use crate::builders::{START, applies, at, change, dies, ignored, item, message, repeat_of, retries, source};
use oncefold_core::reason::Reason;
use oncefold_core::store::{Election, Gauges, Prune, Pruned, Refusal, Settled, Store};
use oncefold_core::time::Timestamp;
use std::sync::Arc;
use std::time::Duration;

const DAY: Duration = Duration::from_secs(86_400);

/// A store that is there answers.
pub async fn it_answers(store: Arc<dyn Store>) {
    store.ping().await.unwrap();
}

/// "Whether the duty is ours until `lease_until`: it was free, ran out, or is ours already."
pub async fn one_at_a_time_has_a_duty(store: Arc<dyn Store>) {
    let elect = |duty, holder: &'static str, seconds| {
        let (store, now) = (Arc::clone(&store), at(seconds));
        let lease_until = now.plus(Duration::from_secs(10));
        async move { store.elect(&Election { duty, holder: holder.to_owned(), now, lease_until }).await.unwrap() }
    };
    assert!(elect("pruner", "one", 0).await);
    assert!(!elect("pruner", "two", 1).await);
    assert!(elect("sampler", "two", 1).await, "another duty");
    assert!(elect("pruner", "one", 5).await);
    assert!(!elect("pruner", "two", 14).await, "it was held on to");
    assert!(elect("pruner", "two", 15).await);
    assert!(!elect("pruner", "one", 16).await);
}

/// Of many who ask at once, one is told yes.
pub async fn an_election_has_one_winner(store: Arc<dyn Store>) {
    let voters = (0..8).map(|n| {
        let store = Arc::clone(&store);
        let election = Election { duty: "pruner", holder: format!("worker {n}"), now: at(0), lease_until: at(10) };
        tokio::spawn(async move { store.elect(&election).await.unwrap() })
    });
    let mut won = 0;
    for voter in voters.collect::<Vec<_>>() {
        won += u32::from(voter.await.unwrap());
    }
    assert_eq!(won, 1);
}

/// "Dead letters by source"; "the oldest `received_at` of events that are queued or retrying, by source".
pub async fn gauges_count_what_is_not_done(store: Arc<dyn Store>) {
    assert_eq!(store.gauges().await.unwrap(), Gauges::default());
    let m = |source, id, seconds| message(source, id, "{}").received_at(at(seconds)).build();
    let queued = m("shop", "queued", 2);
    let items = vec![
        item(&m("shop", "applied", 0), applies(vec![])),
        item(&queued, dies(Reason::BadKey)),
        item(&m("shop", "retrying", 5), retries(at(500))),
        item(&m("shop", "dead", 1), dies(Reason::BadKey)),
        item(&m("bank", "dead1", 1), dies(Reason::BadKey)),
        item(&m("bank", "dead2", 1), dies(Reason::BadId)),
        item(&m("zoo", "retrying", 7), retries(at(500))),
    ];
    apply(&*store, at(8), items).await;
    assert_eq!(replay(&*store, queued.id, at(9)).await, Ok(()));
    let mut gauges = store.gauges().await.unwrap();
    gauges.dead_letters.sort();
    gauges.oldest_unapplied.sort();
    assert_eq!(gauges.dead_letters, [(source("bank"), 2), (source("shop"), 1)]);
    assert_eq!(gauges.oldest_unapplied, [(source("shop"), at(2)), (source("zoo"), at(7))]);
}

fn prune(now: Timestamp, bodies_before: Timestamp, ids_before: Timestamp) -> Prune {
    Prune { now, bodies_before, ids_before, limit: 1_000 }
}

/// "Prepares storage for the days to come": again and again, by many, whatever stands there already.
pub async fn days_can_be_prepared_again(store: Arc<dyn Store>) {
    let early = message("shop", "early", "{}").build();
    apply_one(&*store, START, &early, applies(vec![change("o1", 1).build()])).await;
    let preparers = (0..4).map(|n| {
        let store = Arc::clone(&store);
        tokio::spawn(async move {
            for _ in 0..20 {
                match store.prepare_days(START.plus(DAY * (n % 2))).await {
                    Err(oncefold_core::store::StoreError::Conflict(_)) => {}
                    done => return done.unwrap(),
                }
            }
            panic!("twenty conflicts");
        })
    });
    for preparer in preparers.collect::<Vec<_>>() {
        preparer.await.unwrap();
    }
    for days in 0..6 {
        let now = START.plus(DAY * days);
        let message = message("shop", &format!("e{days}"), "1").received_at(now).build();
        apply_one(&*store, now, &message, applies(vec![change("o1", u64::from(days) + 2).build()])).await;
        assert_eq!(body(&*store, message.id).await.unwrap(), b"1");
        assert_eq!(event(&*store, message.id).await.changes.len(), 1);
    }
    assert_eq!(body(&*store, early.id).await.unwrap(), b"{}");
}

/// "Bodies and changes of events settled before this": gone, the event and its entity stay, a replay says why not.
pub async fn old_bodies_are_forgotten(store: Arc<dyn Store>) {
    let s = &*store;
    s.prepare_days(START).await.unwrap();
    let old = message("shop", "old", "{}").build();
    let new_at = START.plus(DAY * 2);
    let new = message("shop", "new", "{}").received_at(new_at).build();
    apply_one(s, at(1), &old, applies(vec![change("o1", 1).build()])).await;
    apply_one(s, new_at, &new, applies(vec![change("o1", 2).build()])).await;
    let pruned = s.prune(&prune(new_at, new_at.minus(DAY), START)).await.unwrap();
    assert_eq!((pruned.bodies, pruned.events), (1, 0), "one body, or its day");
    assert_eq!(body(s, old.id).await, None);
    let record = event(s, old.id).await;
    assert_eq!((record.changes.len(), record.facts), (0, oncefold_core::message::Facts::default()));
    assert_eq!(replay(s, old.id, new_at).await, Err(Refusal::BodyGone));
    assert_eq!(event(s, old.id).await.status.as_str(), "applied", "a refusal changes nothing");
    assert_eq!(apply_one(s, new_at, &repeat_of(&old), ignored()).await.settled, Settled::Repeat, "the id is known");
    assert_eq!(body(s, new.id).await.unwrap(), b"{}");
    assert_eq!(event(s, new.id).await.changes.len(), 1);
    assert_eq!(s.history("order", "o1", None, 10).await.unwrap().len(), 1);
    assert_eq!(entity(s, "order", "o1").await.version, "2");
    assert_eq!(s.prune(&prune(new_at, new_at.minus(DAY), START)).await.unwrap(), Default::default(), "done");
}

/// What settled only after failing, or was discarded, falls under retention from then on, and can be replayed before.
pub async fn bodies_of_what_settled_late_are_forgotten(store: Arc<dyn Store>) {
    let s = &*store;
    s.prepare_days(START).await.unwrap();
    let [late, given_up] = ["late", "given up"].map(|id| message("shop", id, "{}").build());
    apply(s, at(1), vec![item(&late, retries(at(2))), item(&given_up, dies(Reason::BadKey))]).await;
    for due in claim_due(s, at(2)).await {
        assert_eq!(apply_one(s, at(3), &due, ignored()).await.settled, Settled::Ignored);
    }
    assert_eq!(discard(s, given_up.id, at(3)).await, Ok(()));
    let now = START.plus(DAY * 3);
    s.prune(&prune(now, START, START)).await.unwrap();
    assert_eq!(body(s, late.id).await.unwrap(), b"{}", "not yet");
    s.prune(&prune(now, now.minus(DAY), START)).await.unwrap();
    for gone in [&late, &given_up] {
        assert_eq!(body(s, gone.id).await, None, "{}", gone.event_id);
        assert_eq!(replay(s, gone.id, now).await, Err(Refusal::BodyGone));
    }
}

/// Without days prepared it is forgotten all the same.
pub async fn old_bodies_are_forgotten_without_days(store: Arc<dyn Store>) {
    let s = &*store;
    let old = message("shop", "old", "{}").build();
    apply_one(s, at(1), &old, applies(vec![change("o1", 1).build()])).await;
    let now = START.plus(DAY * 3);
    let pruned = s.prune(&prune(now, now.minus(DAY), START)).await.unwrap();
    assert_eq!((pruned.bodies, pruned.events), (1, 0));
    assert_eq!(body(s, old.id).await, None);
    assert_eq!(s.history("order", "o1", None, 10).await.unwrap(), []);
}

/// "Settled events settled before this, with their ids": forgotten, an id that comes again is new.
pub async fn old_ids_are_forgotten(store: Arc<dyn Store>) {
    let s = &*store;
    let old = message("shop", "old", "{}").build();
    apply_one(s, at(1), &old, applies(vec![change("o1", 1).build()])).await;
    let now = START.plus(DAY * 40);
    let fresh = message("shop", "fresh", "{}").received_at(now.minus(DAY)).build();
    apply_one(s, now.minus(DAY), &fresh, ignored()).await;
    let pruned = s.prune(&prune(now, now.minus(DAY * 30), now.minus(DAY * 35))).await.unwrap();
    assert_eq!(pruned.events, 1);
    assert_eq!(s.event(old.id).await.unwrap(), None);
    assert_eq!(event(s, fresh.id).await.deliveries, 1);
    let outcome = apply_one(s, now, &repeat_of(&old), applies(vec![change("o1", 1).build()])).await;
    assert_eq!(outcome.settled, Settled::Applied);
    assert_eq!(outcome.verdicts, [oncefold_core::change::Verdict::Duplicate], "the guard does not forget");
}

/// "Unsettled events and dead letters stay, whatever their age", with their bodies and attempts.
pub async fn what_is_not_settled_is_never_forgotten(store: Arc<dyn Store>) {
    let s = &*store;
    s.prepare_days(START).await.unwrap();
    let ids = ["retrying", "dead", "queued", "replayed", "discarded"];
    let messages = ids.map(|id| message("shop", id, "{}").build());
    let [retrying, dead, queued, replayed, discarded] = &messages;
    apply(
        s,
        at(1),
        vec![
            item(retrying, retries(at(2))),
            item(dead, dies(Reason::BadKey)),
            item(queued, dies(Reason::BadKey)),
            item(replayed, ignored()),
            item(discarded, dies(Reason::BadKey)),
        ],
    )
    .await;
    for replayed in [queued, replayed] {
        assert_eq!(replay(s, replayed.id, at(2)).await, Ok(()));
    }
    assert_eq!(discard(s, discarded.id, at(2)).await, Ok(()));
    let now = START.plus(DAY * 400);
    let pruned = s.prune(&prune(now, now.minus(DAY * 30), now.minus(DAY * 35))).await.unwrap();
    assert_eq!(pruned.events, 1, "the discarded one");
    assert_eq!(s.event(discarded.id).await.unwrap(), None);
    for kept in [retrying, dead, queued, replayed] {
        assert_eq!(event(s, kept.id).await.status.as_str(), kept.event_id.replace("replayed", "queued"));
        assert_eq!(body(s, kept.id).await.unwrap(), b"{}", "{}", kept.event_id);
    }
    assert_eq!(s.attempts(dead.id).await.unwrap().len(), 1);
    assert_eq!(claim_due(s, now).await.len(), 3);
    assert_eq!(replay(s, dead.id, now).await, Ok(()));
}

/// "Where nothing was \[forgotten\], nothing is left to forget": changes too, however many one event had.
pub async fn changes_are_forgotten_to_the_last(store: Arc<dyn Store>) {
    let s = &*store;
    let old = message("shop", "old", "{}").build();
    let changes = (0..25).map(|n| change("o1", n).build()).collect();
    apply_one(s, at(1), &old, applies(changes)).await;
    let now = START.plus(DAY * 3);
    let step = Prune { limit: 10, ..prune(now, now.minus(DAY), START) };
    let mut forgotten = (0, 0);
    for _ in 0..10 {
        let pruned = s.prune(&step).await.unwrap();
        if pruned == Pruned::default() {
            break;
        }
        forgotten = (forgotten.0 + pruned.bodies, forgotten.1 + pruned.changes);
    }
    assert_eq!(s.history("order", "o1", None, 100).await.unwrap(), []);
    assert_eq!(forgotten, (1, 25));
}

/// "At most so many rows a call": the oldest first, and the rest by the next calls.
pub async fn forgetting_is_bounded(store: Arc<dyn Store>) {
    let s = &*store;
    let messages: Vec<_> =
        (0..25).map(|n| message("shop", &format!("e{n}"), "{}").received_at(at(n)).build()).collect();
    apply(s, later(), messages.iter().map(|m| item(m, ignored())).collect()).await;
    let now = START.plus(DAY * 400);
    let step = Prune { limit: 10, ..prune(now, now.minus(DAY * 30), now.minus(DAY * 35)) };
    let mut left = vec![];
    for _ in 0..4 {
        s.prune(&step).await.unwrap();
        left.push(all_events(s).await.len());
    }
    assert_eq!(left, [15, 5, 0, 0]);
}
