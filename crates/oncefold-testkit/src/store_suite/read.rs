//! `ReadStore`: filters, cursors, groups, history.

use super::support::{all_events, apply, apply_one, claim_one, replay};
use crate::builders::{START, applies, at, change, dies, event_uuid, ignored, item, message, retries, source};
use oncefold_core::event::EventStatus;
use oncefold_core::id::EventUuid;
use oncefold_core::prepare::Prepared;
use oncefold_core::reason::Reason;
use oncefold_core::store::{DeadLetterGroup, EntityFilter, EventFilter, Store};
use std::sync::Arc;
use std::time::Duration;

fn typed(event_type: &str, prepared: Prepared) -> Prepared {
    Prepared { event_type: Some(event_type.to_owned()), ..prepared }
}

async fn ids(store: &dyn Store, filter: EventFilter) -> Vec<String> {
    let filter = EventFilter { limit: 500, ..filter };
    store.events(&filter).await.expect("events can be read").into_iter().map(|e| e.event_id).collect()
}

/// A small world: six events, received a second apart.
async fn world(store: &dyn Store) -> Vec<EventUuid> {
    let m = |n: u64, source| message(source, &format!("e{n}"), "{}").received_at(at(n)).build();
    let messages = [m(0, "shop"), m(1, "shop"), m(2, "bank"), m(3, "shop"), m(4, "bank"), m(5, "shop")];
    let plans = [
        typed("order.created", applies(vec![change("o1", 1).build()])),
        typed("order.paid", applies(vec![change("o2", 1).build(), change("p1", 1).entity("payment").build()])),
        typed("order.paid", ignored()),
        typed("order.created", dies(Reason::BadKey)),
        typed("order.created", retries(at(500))),
        typed("order.paid", dies(Reason::BadKey)),
    ];
    let items = messages.iter().zip(plans).map(|(m, plan)| item(m, plan)).collect();
    apply(store, at(9), items).await;
    assert_eq!(replay(store, messages[5].id, at(10)).await, Ok(()));
    messages.iter().map(|m| m.id).collect()
}

/// Each filter alone, and together; newest first.
pub async fn events_are_found_by_every_filter(store: Arc<dyn Store>) {
    let s = &*store;
    world(s).await;
    let f = EventFilter::default;
    let text = |t: &str| Some(t.to_owned());
    assert_eq!(ids(s, f()).await, ["e5", "e4", "e3", "e2", "e1", "e0"]);
    assert_eq!(ids(s, EventFilter { source: text("bank"), ..f() }).await, ["e4", "e2"]);
    assert_eq!(ids(s, EventFilter { source: text("ban"), ..f() }).await, [""; 0]);
    assert_eq!(ids(s, EventFilter { event_type: text("order.created"), ..f() }).await, ["e4", "e3", "e0"]);
    let by_status = [
        (EventStatus::Queued, vec!["e5"]),
        (EventStatus::Retrying, vec!["e4"]),
        (EventStatus::Dead, vec!["e3"]),
        (EventStatus::Applied, vec!["e1", "e0"]),
        (EventStatus::Ignored, vec!["e2"]),
        (EventStatus::Discarded, vec![]),
    ];
    for (status, expected) in by_status {
        assert_eq!(ids(s, EventFilter { status: Some(status), ..f() }).await, expected, "{status}");
    }
    let of_reason = ids(s, EventFilter { reason: text("mapping.bad_key"), ..f() }).await;
    assert_eq!(of_reason, ["e3"], "e5 is dead no longer");
    assert_eq!(ids(s, EventFilter { reason: text("apply.failed"), ..f() }).await, ["e4"]);
    assert_eq!(ids(s, EventFilter { entity: text("order"), ..f() }).await, ["e1", "e0"]);
    assert_eq!(ids(s, EventFilter { entity: text("payment"), ..f() }).await, ["e1"]);
    assert_eq!(ids(s, EventFilter { key: text("o1"), ..f() }).await, ["e0"]);
    assert_eq!(ids(s, EventFilter { entity: text("payment"), key: text("p1"), ..f() }).await, ["e1"]);
    let crossed = EventFilter { entity: text("payment"), key: text("o2"), ..f() };
    assert_eq!(ids(s, crossed).await, [""; 0], "kind and key of one change");
    assert_eq!(ids(s, EventFilter { event_id: text("e3"), ..f() }).await, ["e3"]);
    assert_eq!(ids(s, EventFilter { event_id: text("e"), ..f() }).await, [""; 0]);
    let all = EventFilter {
        source: text("shop"),
        event_type: text("order.paid"),
        status: Some(EventStatus::Applied),
        entity: text("order"),
        key: text("o2"),
        event_id: text("e1"),
        since: Some(at(1)),
        until: Some(at(2)),
        ..f()
    };
    assert_eq!(ids(s, all).await, ["e1"]);
}

/// "Received at or after" and "before", to the microsecond, though ids hold only milliseconds.
pub async fn time_bounds_are_exact(store: Arc<dyn Store>) {
    let s = &*store;
    let micros = [0, 1, 999, 1_000, 1_001, 1_999, 2_000];
    for us in micros {
        let message =
            message("shop", &format!("{us}"), "{}").received_at(START.plus(Duration::from_micros(us))).build();
        apply_one(s, at(9), &message, ignored()).await;
    }
    for since in micros {
        for until in micros {
            let moment = |us| Some(START.plus(Duration::from_micros(us)));
            let filter = EventFilter { since: moment(since), until: moment(until), ..EventFilter::default() };
            let expected: Vec<_> =
                micros.iter().rev().filter(|us| (since..until).contains(us)).map(u64::to_string).collect();
            assert_eq!(ids(s, filter).await, expected, "{since}..{until}");
        }
    }
}

/// Pages neither skip nor repeat, of one millisecond too, while newer events come in.
pub async fn pages_of_events_neither_skip_nor_repeat(store: Arc<dyn Store>) {
    let s = &*store;
    let messages: Vec<_> =
        (0..53).map(|n| message("shop", &format!("e{n}"), "{}").received_at(at(n / 20)).build()).collect();
    apply(s, at(9), messages.iter().map(|m| item(m, ignored())).collect()).await;
    let (mut seen, mut before) = (vec![], None);
    loop {
        let filter = EventFilter { source: Some("shop".into()), before, limit: 7, ..EventFilter::default() };
        let page = s.events(&filter).await.unwrap();
        assert!(page.len() <= 7);
        let Some(last) = page.last() else { break };
        before = Some(last.id);
        seen.extend(page.into_iter().map(|e| e.event_id));
        let newer = message("shop", &format!("late{}", seen.len()), "{}").received_at(at(8)).build();
        apply_one(s, at(9), &newer, ignored()).await;
    }
    let expected: Vec<_> = (0..53).rev().map(|n| format!("e{n}")).collect();
    assert_eq!(seen, expected);
}

/// One event is as in its page; one that is not there is none.
pub async fn an_event_reads_as_in_its_page(store: Arc<dyn Store>) {
    let s = &*store;
    let ids = world(s).await;
    let page = all_events(s).await;
    assert_eq!(page.len(), ids.len());
    for record in page {
        assert_eq!(s.event(record.id).await.unwrap(), Some(record));
    }
    assert_eq!(s.event(event_uuid(at(0))).await.unwrap(), None);
}

/// "Dead letters by source, type and reason, most first."
pub async fn dead_letters_are_grouped(store: Arc<dyn Store>) {
    let s = &*store;
    assert_eq!(s.dead_letter_groups().await.unwrap(), []);
    let dead = |n: u64, source, event_type: Option<&str>, reason| {
        let message = message(source, &format!("e{n}"), "{}").received_at(at(n)).build();
        (message, Prepared { event_type: event_type.map(str::to_owned), ..dies(reason) })
    };
    let letters = [
        dead(1, "shop", Some("a"), Reason::BadKey),
        dead(2, "shop", Some("a"), Reason::BadKey),
        dead(3, "shop", Some("a"), Reason::BadKey),
        dead(4, "shop", None, Reason::MissingType),
        dead(5, "shop", None, Reason::MissingType),
        dead(6, "bank", Some("a"), Reason::BadKey),
    ];
    apply(s, at(9), letters.iter().map(|(m, plan)| item(m, plan.clone())).collect()).await;
    apply_one(s, at(9), &message("shop", "fine", "{}").build(), ignored()).await;
    let group = |source_name, event_type: Option<&str>, reason: Reason, (oldest, newest): (u64, u64)| DeadLetterGroup {
        source: source(source_name),
        event_type: event_type.map(str::to_owned),
        reason: reason.to_string(),
        count: newest - oldest + 1,
        oldest: at(oldest),
        newest: at(newest),
        example: letters[usize::try_from(newest).unwrap() - 1].0.id,
    };
    let expected = [
        group("shop", Some("a"), Reason::BadKey, (1, 3)),
        group("shop", None, Reason::MissingType, (4, 5)),
        group("bank", Some("a"), Reason::BadKey, (6, 6)),
    ];
    assert_eq!(s.dead_letter_groups().await.unwrap(), expected);
}

async fn keys(store: &dyn Store, filter: EntityFilter) -> Vec<String> {
    let filter = EntityFilter { limit: 500, ..filter };
    let found = store.entities(&filter).await.expect("entities can be read");
    found.into_iter().map(|e| format!("{}/{}", e.entity, e.key)).collect()
}

/// Keys that a pattern or a locale would confuse, in the order of their bytes.
const AWKWARD: [&str; 12] = ["A", "B", "\\", "a", "a%", "a%b", "aXb", "a_", "ab", "b", "á", "\u{10FFFF}"];

async fn awkward_world(store: &dyn Store) {
    let changes = AWKWARD.iter().map(|key| change(key, 1).build());
    let others = [change("a", 1).entity("customer").build(), change("ab", 1).entity("z").delete().build()];
    let message = message("shop", "e1", "{}").build();
    apply_one(store, at(1), &message, applies(changes.chain(others).collect())).await;
}

/// "By (entity, key) in byte order", by kind, by deleted.
pub async fn entities_are_in_byte_order(store: Arc<dyn Store>) {
    let s = &*store;
    awkward_world(s).await;
    let orders: Vec<_> = AWKWARD.iter().map(|key| format!("order/{key}")).collect();
    let mut all = vec!["customer/a".to_owned()];
    all.extend(orders.clone());
    all.push("z/ab".to_owned());
    let f = EntityFilter::default;
    assert_eq!(keys(s, f()).await, all);
    assert_eq!(keys(s, EntityFilter { entity: Some("order".into()), ..f() }).await, orders);
    assert_eq!(keys(s, EntityFilter { deleted: Some(true), ..f() }).await, ["z/ab"]);
    assert_eq!(keys(s, EntityFilter { deleted: Some(false), ..f() }).await, all[..all.len() - 1]);
}

/// "Whose key starts with this, byte for byte": `%`, `_` and `\` are only characters, case counts.
pub async fn key_prefixes_are_exact(store: Arc<dyn Store>) {
    let s = &*store;
    awkward_world(s).await;
    for prefix in AWKWARD.iter().copied().chain(["", "a%bc", "%", "_", "aX", "\u{10FFFF}x"]) {
        let filter =
            EntityFilter { entity: Some("order".into()), key_prefix: Some(prefix.into()), ..EntityFilter::default() };
        let expected: Vec<_> =
            AWKWARD.iter().filter(|key| key.starts_with(prefix)).map(|key| format!("order/{key}")).collect();
        assert_eq!(keys(s, filter).await, expected, "{prefix:?}");
    }
    let everywhere = EntityFilter { key_prefix: Some("ab".into()), ..EntityFilter::default() };
    assert_eq!(keys(s, everywhere).await, ["order/ab", "z/ab"]);
}

/// Pages of entities neither skip nor repeat, across kinds and with a prefix.
pub async fn pages_of_entities_neither_skip_nor_repeat(store: Arc<dyn Store>) {
    let s = &*store;
    awkward_world(s).await;
    for prefix in [None, Some("a".to_owned())] {
        let filter = EntityFilter { key_prefix: prefix, ..EntityFilter::default() };
        let expected = keys(s, filter.clone()).await;
        for limit in [1, 2, 5] {
            let (mut seen, mut after) = (vec![], None);
            loop {
                let page = s.entities(&EntityFilter { after, limit, ..filter.clone() }).await.unwrap();
                let Some(last) = page.last() else { break };
                assert!(page.len() <= limit as usize);
                after = Some((last.entity.to_string(), last.key.clone()));
                seen.extend(page.iter().map(|e| format!("{}/{}", e.entity, e.key)));
            }
            assert_eq!(seen, expected, "limit {limit}");
        }
    }
}

/// "Its changes, newest event first": every change with its verdict, the stale ones too, of this entity alone.
pub async fn history_tells_every_change(store: Arc<dyn Store>) {
    let s = &*store;
    let m = |n: u64| message("shop", &format!("e{n}"), "{}").received_at(at(n)).build();
    let [first, second, third] = [m(1), m(2), m(3)];
    apply_one(s, at(4), &third, typed("late", applies(vec![change("o1", 3).build()]))).await;
    apply_one(s, at(5), &first, typed("early", applies(vec![change("o1", 1).build(), change("o2", 1).build()]))).await;
    apply_one(s, at(6), &second, applies(vec![change("o1", 9).entity("payment").build()])).await;
    let history = s.history("order", "o1", None, 10).await.unwrap();
    let shown: Vec<_> = history
        .iter()
        .map(|h| (h.event, h.source.as_str(), h.event_type.as_deref(), &*h.version, h.verdict.as_str(), h.at))
        .collect();
    let expected = [
        (third.id, "shop", Some("late"), "3", "applied", at(4)),
        (first.id, "shop", Some("early"), "1", "stale", at(5)),
    ];
    assert_eq!(shown, expected);
    assert_eq!(s.history("order", "o3", None, 10).await.unwrap(), []);
}

/// The cursor is an event: pages neither skip nor repeat, where an event has several changes of the entity (here by
/// replays) too; a page then is a little longer than asked for.
pub async fn pages_of_history_neither_skip_nor_repeat(store: Arc<dyn Store>) {
    let s = &*store;
    for n in 0..9u64 {
        let message = message("shop", &format!("e{n}"), "{}").received_at(at(n)).build();
        let plan = || applies(vec![change("o1", n).build()]);
        apply_one(s, at(20), &message, plan()).await;
        for again in 0..n % 3 {
            assert_eq!(replay(s, message.id, at(21 + again)).await, Ok(()));
            let due = claim_one(s, at(21 + again)).await;
            apply_one(s, at(21 + again), &due, plan()).await;
        }
    }
    let all: Vec<_> = s.history("order", "o1", None, 500).await.unwrap();
    assert_eq!(all.len(), 9 + 9);
    let newest_first = all.windows(2).all(|pair| pair[0].event > pair[1].event || pair[0].at >= pair[1].at);
    assert!(newest_first, "{all:?}");
    for limit in [1, 2, 3, 7] {
        let (mut seen, mut before) = (vec![], None);
        loop {
            let page = s.history("order", "o1", before, limit).await.unwrap();
            let Some(last) = page.last() else { break };
            before = Some(last.event);
            seen.extend(page);
        }
        assert_eq!(seen, all, "limit {limit}");
    }
}
