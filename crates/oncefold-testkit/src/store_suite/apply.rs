//! `ApplyStore`: claims, repeats, variants, generations.

use super::support::{
    all_events, apply, apply_one, body, claim_due, claim_one, discard, entity, event, later, replay, settled,
};
use crate::builders::{applies, at, change, dies, event_uuid, ignored, item, message, repeat_of, retries};
use oncefold_core::change::Verdict;
use oncefold_core::event::EventStatus;
use oncefold_core::message::Message;
use oncefold_core::reason::Reason;
use oncefold_core::store::{Outcome, Settled, Store, variant_event_id};
use std::sync::Arc;

fn plain(settled: Settled) -> Outcome {
    Outcome { settled, variant: false, verdicts: vec![] }
}

/// "`generation == 0` and no event `(source, event_id)`: recorded with the plan's verdict, `deliveries = 1`,
/// `attempts = 1`", for each verdict.
pub async fn a_new_event_is_recorded_with_its_verdict(store: Arc<dyn Store>) {
    let [a, b, c, d] = ["applied", "ignored", "retrying", "dead"].map(|id| message("shop", id, "{}").build());
    let outcomes = apply(
        &*store,
        at(1),
        vec![
            item(&a, applies(vec![change("o1", 1).build(), change("o2", 1).build()])),
            item(&b, ignored()),
            item(&c, retries(at(5))),
            item(&d, dies(Reason::BadKey)),
        ],
    )
    .await;
    let applied = Outcome { settled: Settled::Applied, variant: false, verdicts: vec![Verdict::Applied; 2] };
    assert_eq!(outcomes, [applied, plain(Settled::Ignored), plain(Settled::Retrying), plain(Settled::Dead)]);
    let mut records = vec![];
    for message in [&a, &b, &c, &d] {
        records.push(event(&*store, message.id).await);
    }
    for (record, message) in records.iter().zip([&a, &b, &c, &d]) {
        assert_eq!((record.deliveries, record.attempts), (1, 1));
        assert_eq!((record.source.as_str(), &record.event_id), ("shop", &message.event_id));
        assert_eq!(record.event_type.as_deref(), Some("order.updated"));
        assert_eq!(record.received_at, message.received_at);
        assert_eq!(record.facts, message.facts.decode());
    }
    let [a, b, c, d] = <[_; 4]>::try_from(records).unwrap();
    assert_eq!((a.status, a.settled_at, a.dead_at, a.error), (EventStatus::Applied, Some(at(1)), None, None));
    assert_eq!((b.status, b.settled_at, b.dead_at, b.error), (EventStatus::Ignored, Some(at(1)), None, None));
    assert_eq!((c.status, c.settled_at, c.dead_at), (EventStatus::Retrying, None, None));
    assert_eq!(c.next_attempt_at, Some(at(5)));
    assert_eq!(c.error, Some(("apply.failed".into(), "the database failed".into())));
    assert_eq!((d.status, d.settled_at, d.dead_at), (EventStatus::Dead, None, Some(at(1))));
    assert_eq!(d.error, Some(("mapping.bad_key".into(), "it cannot be mapped".into())));
    let shown: Vec<_> = a.changes.iter().map(|c| (c.entity.as_str(), &*c.key, &*c.version, c.verdict)).collect();
    assert_eq!(shown, [("order", "o1", "1", Verdict::Applied), ("order", "o2", "1", Verdict::Applied)]);
}

/// One event id at two sources is two events.
pub async fn event_ids_are_apart_by_source(store: Arc<dyn Store>) {
    let here = message("shop", "e1", "{}").build();
    let there = message("shop2", "e1", "{}").build();
    let items = [&here, &there].map(|m| item(m, ignored())).to_vec();
    assert_eq!(settled(&apply(&*store, at(1), items).await), [Settled::Ignored, Settled::Ignored]);
}

/// "Known with the same digest … `deliveries` grows by one and the answer is `Repeat` (applied, ignored, discarded,
/// queued)"; the repeat's own plan does not count.
pub async fn a_repeat_of_what_is_settled_or_on_its_way_is_only_counted(store: Arc<dyn Store>) {
    let messages = ["applied", "ignored", "discarded", "queued"].map(|id| message("shop", id, "{}").build());
    let [applied, passed, discarded, queued] = &messages;
    let plans = [applies(vec![change("o1", 1).build()]), ignored(), dies(Reason::BadKey), dies(Reason::BadKey)];
    let items = messages.iter().zip(plans).map(|(m, plan)| item(m, plan)).collect();
    apply(&*store, at(1), items).await;
    assert_eq!(discard(&*store, discarded.id, at(2)).await, Ok(()));
    assert_eq!(replay(&*store, queued.id, at(2)).await, Ok(()));
    let before = [applied, passed, discarded, queued].map(|m| m.id);
    for (n, message) in messages.iter().enumerate() {
        let outcome = apply_one(&*store, at(3), &repeat_of(message), applies(vec![change("o1", 9).build()])).await;
        assert_eq!(outcome, plain(Settled::Repeat), "{}", message.event_id);
        let record = event(&*store, before[n]).await;
        assert_eq!((record.deliveries, record.attempts), (2, 1), "{}", message.event_id);
        assert_eq!(record.status.as_str(), message.event_id);
    }
    assert_eq!(entity(&*store, "order", "o1").await.version, "1");
    assert_eq!(all_events(&*store).await.len(), 4);
}

/// "… or `Woken` (retrying: `next_attempt_at` becomes `now`)"; the stored one is tried, with the first's moment.
pub async fn a_repeat_wakes_what_is_retrying(store: Arc<dyn Store>) {
    let first = message("shop", "e1", "{}").build();
    apply_one(&*store, at(1), &first, retries(at(500))).await;
    let again = message("shop", "e1", "{}").received_at(at(9)).build();
    assert_eq!(apply_one(&*store, at(10), &again, ignored()).await, plain(Settled::Woken));
    let record = event(&*store, first.id).await;
    assert_eq!((record.status, record.next_attempt_at), (EventStatus::Retrying, Some(at(10))));
    assert_eq!((record.deliveries, record.attempts), (2, 1));
    let due = claim_one(&*store, at(10)).await;
    assert_eq!((due.id, due.received_at, due.generation), (first.id, first.received_at, 1));
}

/// "… (dead: `queued`, generation + 1, due now)."
pub async fn a_repeat_wakes_what_is_dead(store: Arc<dyn Store>) {
    let first = message("shop", "e1", "{}").build();
    apply_one(&*store, at(1), &first, dies(Reason::BadKey)).await;
    assert_eq!(claim_due(&*store, later()).await, [], "the dead are not due");
    assert_eq!(apply_one(&*store, at(10), &repeat_of(&first), ignored()).await, plain(Settled::Woken));
    let record = event(&*store, first.id).await;
    assert_eq!((record.status, record.dead_at, record.error), (EventStatus::Queued, None, None));
    assert_eq!((record.deliveries, record.attempts), (2, 1));
    let due = claim_one(&*store, at(10)).await;
    assert_eq!((due.id, due.generation, due.attempts), (first.id, 1, 1), "one more when woken, none when taken");
}

/// "If `id` is the event's own the verdict was given before: `Late`": a redelivery is no delivery.
pub async fn a_message_that_comes_twice_from_the_queue_is_late(store: Arc<dyn Store>) {
    let plans = [ignored(), retries(at(50)), dies(Reason::BadKey), applies(vec![])];
    for (n, plan) in plans.into_iter().enumerate() {
        let once = message("shop", &format!("e{n}"), "{}").build();
        apply_one(&*store, at(1), &once, plan).await;
        let before = event(&*store, once.id).await;
        assert_eq!(apply_one(&*store, at(2), &once, ignored()).await, plain(Settled::Late));
        assert_eq!(event(&*store, once.id).await, before, "nothing was done");
    }
}

/// "Known with another digest: the same two rules under `variant_event_id`": recorded beside the first, then counted.
pub async fn other_bytes_under_a_known_id_are_a_variant(store: Arc<dyn Store>) {
    let first = message("shop", "e1", r#"{"v":1}"#).build();
    let other = message("shop", "e1", r#"{"v":2}"#).build();
    apply_one(&*store, at(1), &first, applies(vec![change("o1", 1).build()])).await;
    let outcome = apply_one(&*store, at(2), &other, applies(vec![change("o1", 2).build()])).await;
    assert_eq!(outcome, Outcome { settled: Settled::Applied, variant: true, verdicts: vec![Verdict::Applied] });
    let record = event(&*store, other.id).await;
    assert_eq!(record.event_id, variant_event_id("e1", &other.digest));
    assert_eq!(record.event_id, format!("e1~{}", other.digest.to_hex()));
    assert_eq!((record.deliveries, record.attempts), (1, 1));
    assert_eq!(event(&*store, first.id).await.deliveries, 1, "the first was not delivered again");
    assert_eq!(entity(&*store, "order", "o1").await.event, other.id);
    assert_eq!(body(&*store, other.id).await.unwrap(), br#"{"v":2}"#);

    let again = apply_one(&*store, at(3), &repeat_of(&other), ignored()).await;
    assert_eq!((again.settled, again.variant), (Settled::Repeat, true));
    assert_eq!(event(&*store, other.id).await.deliveries, 2);
    assert_eq!(apply_one(&*store, at(3), &other, ignored()).await.settled, Settled::Late);
    assert_eq!(apply_one(&*store, at(3), &repeat_of(&first), ignored()).await, plain(Settled::Repeat));
    assert_eq!(all_events(&*store).await.len(), 2);
}

/// A variant that failed is woken by its own repeat, not by the first's.
pub async fn a_variant_wakes_by_its_own_bytes(store: Arc<dyn Store>) {
    let first = message("shop", "e1", "1").build();
    let other = message("shop", "e1", "2").build();
    apply_one(&*store, at(1), &first, ignored()).await;
    let outcome = apply_one(&*store, at(1), &other, retries(at(500))).await;
    assert_eq!((outcome.settled, outcome.variant), (Settled::Retrying, true));
    assert_eq!(apply_one(&*store, at(2), &repeat_of(&first), ignored()).await.settled, Settled::Repeat);
    assert_eq!(claim_due(&*store, at(2)).await, []);
    assert_eq!(apply_one(&*store, at(3), &repeat_of(&other), ignored()).await.settled, Settled::Woken);
    let due = claim_one(&*store, at(3)).await;
    assert_eq!((due.id, &due.body[..]), (other.id, &b"2"[..]));
    assert_eq!(apply_one(&*store, at(4), &due, ignored()).await.settled, Settled::Ignored);
}

/// "For each item, in order": what came in one batch ends as if it had come in several.
pub async fn repeats_and_variants_within_a_batch_are_as_across_batches(store: Arc<dyn Store>) {
    let good = message("shop", "good", "1").build();
    let other = message("shop", "good", "2").build();
    let failing = message("shop", "failing", "1").build();
    let dead = message("shop", "dead", "1").build();
    let o = |version| applies(vec![change("o1", version).build()]);
    let items = vec![
        item(&good, o(1)),
        item(&repeat_of(&good), o(9)),
        item(&good, o(9)),
        item(&other, o(2)),
        item(&repeat_of(&other), o(9)),
        item(&repeat_of(&good), o(9)),
        item(&failing, retries(at(500))),
        item(&repeat_of(&failing), o(9)),
        item(&dead, dies(Reason::BadKey)),
        item(&repeat_of(&dead), o(9)),
    ];
    use Settled::{Applied, Dead, Late, Repeat, Retrying, Woken};
    let outcomes = apply(&*store, at(1), items).await;
    assert_eq!(settled(&outcomes), [Applied, Repeat, Late, Applied, Repeat, Repeat, Retrying, Woken, Dead, Woken]);
    let variants: Vec<bool> = outcomes.iter().map(|o| o.variant).collect();
    assert_eq!(variants, [false, false, false, true, true, false, false, false, false, false]);
    assert_eq!(outcomes[1].verdicts, []);
    assert_eq!(entity(&*store, "order", "o1").await.version, "2");
    assert_eq!(event(&*store, good.id).await.deliveries, 3);
    assert_eq!(event(&*store, other.id).await.deliveries, 2);
    let record = event(&*store, failing.id).await;
    assert_eq!((record.status, record.deliveries, record.next_attempt_at), (EventStatus::Retrying, 2, Some(at(1))));
    let record = event(&*store, dead.id).await;
    assert_eq!((record.status, record.deliveries, record.attempts), (EventStatus::Queued, 2, 1));
    let due: Vec<(_, u32)> = claim_due(&*store, at(1)).await.iter().map(|m| (m.id, m.generation)).collect();
    assert!(due.contains(&(failing.id, 1)) && due.contains(&(dead.id, 1)) && due.len() == 2, "{due:?}");
}

/// A batch whose first variant is new beside an event that is known already.
pub async fn a_batch_of_nothing_but_variants(store: Arc<dyn Store>) {
    let first = message("shop", "e1", "1").build();
    apply_one(&*store, at(1), &first, ignored()).await;
    let [b, c] = ["2", "3"].map(|body| message("shop", "e1", body).build());
    let items = [&b, &repeat_of(&b), &c, &b].map(|m| item(m, ignored())).to_vec();
    let outcomes = apply(&*store, at(2), items).await;
    assert_eq!(settled(&outcomes), [Settled::Ignored, Settled::Repeat, Settled::Ignored, Settled::Late]);
    assert_eq!(event(&*store, b.id).await.deliveries, 2);
    assert_eq!(event(&*store, c.id).await.deliveries, 1);
    assert_eq!(all_events(&*store).await.len(), 3);
}

/// "`generation > 0`: given a verdict only if the event `id` is `queued` in exactly that generation, else `Late`.
/// `attempts` grows by one."
pub async fn a_verdict_needs_the_present_generation(store: Arc<dyn Store>) {
    let first = message("shop", "e1", "{}").build();
    apply_one(&*store, at(1), &first, retries(at(2))).await;
    let older = claim_one(&*store, at(2)).await;
    apply_one(&*store, at(3), &older, retries(at(4))).await;
    let newer = claim_one(&*store, at(100)).await;
    assert_eq!((older.generation, newer.generation), (1, 2));
    let change = || applies(vec![change("o1", 1).build()]);
    assert_eq!(apply_one(&*store, at(101), &older, change()).await, plain(Settled::Late));
    assert_eq!(event(&*store, first.id).await.status, EventStatus::Queued);
    let ahead = Message { generation: 3, ..newer.clone() };
    assert_eq!(apply_one(&*store, at(101), &ahead, change()).await, plain(Settled::Late));
    let unknown = Message { id: event_uuid(at(0)), ..newer.clone() };
    assert_eq!(apply_one(&*store, at(101), &unknown, change()).await, plain(Settled::Late));
    assert!(store.entity("order", "o1").await.unwrap().is_none(), "late copies change nothing");

    let outcome = apply_one(&*store, at(102), &newer, change()).await;
    assert_eq!(outcome, Outcome { settled: Settled::Applied, variant: false, verdicts: vec![Verdict::Applied] });
    let record = event(&*store, first.id).await;
    assert_eq!((record.status, record.attempts, record.deliveries), (EventStatus::Applied, 3, 1));
    assert_eq!((record.settled_at, record.next_attempt_at, record.error), (Some(at(102)), None, None));
    assert_eq!(apply_one(&*store, at(103), &newer, change()).await, plain(Settled::Late), "it comes twice");
    assert_eq!(event(&*store, first.id).await.attempts, 3);
}

/// A copy of one generation twice in a batch: the first is given the verdict.
pub async fn a_copy_twice_in_a_batch_is_applied_once(store: Arc<dyn Store>) {
    let first = message("shop", "e1", "{}").build();
    apply_one(&*store, at(1), &first, retries(at(2))).await;
    let due = claim_one(&*store, at(2)).await;
    let plan = || applies(vec![change("o1", 1).build()]);
    let items = vec![item(&due, plan()), item(&repeat_of(&first), plan()), item(&due, plan())];
    let outcomes = apply(&*store, at(3), items).await;
    assert_eq!(settled(&outcomes), [Settled::Applied, Settled::Repeat, Settled::Late]);
    let record = event(&*store, first.id).await;
    assert_eq!((record.attempts, record.deliveries), (2, 2));
}

/// The worker reads the type again: what a mended config finds is kept.
pub async fn a_later_verdict_brings_the_type(store: Arc<dyn Store>) {
    let first = message("shop", "e1", "{}").event_type(None).build();
    let untyped = oncefold_core::prepare::Prepared::dead(
        None,
        oncefold_core::reason::Failure::of(Reason::MissingType, "there is no event type at /type"),
    );
    apply_one(&*store, at(1), &first, untyped).await;
    assert_eq!(event(&*store, first.id).await.event_type, None);
    assert_eq!(replay(&*store, first.id, at(2)).await, Ok(()));
    let due = claim_one(&*store, at(2)).await;
    apply_one(&*store, at(3), &due, ignored()).await;
    assert_eq!(event(&*store, first.id).await.event_type.as_deref(), Some("order.updated"));
}

/// Nothing to do is done.
pub async fn an_empty_batch_is_nothing(store: Arc<dyn Store>) {
    assert_eq!(apply(&*store, at(1), vec![]).await, []);
}

/// The outcomes are in the order of the items, however many there are.
pub async fn outcomes_are_in_the_order_of_the_items(store: Arc<dyn Store>) {
    let known: Vec<_> = (0..250).map(|n| message("shop", &format!("e{}", (n * 7) % 250), "{}").build()).collect();
    apply(&*store, at(1), known.iter().map(|m| item(m, ignored())).collect()).await;
    let mixed: Vec<_> = (0..500)
        .map(|n| if n % 2 == 0 { repeat_of(&known[n / 2]) } else { message("shop", &format!("n{n}"), "{}").build() })
        .collect();
    let items = mixed.iter().map(|m| item(m, applies(vec![change(&m.event_id, 1).build()]))).collect();
    for (n, outcome) in apply(&*store, at(2), items).await.iter().enumerate() {
        let expected = if n % 2 == 0 { Settled::Repeat } else { Settled::Applied };
        assert_eq!((outcome.settled, outcome.verdicts.len()), (expected, n % 2), "item {n}");
    }
}
