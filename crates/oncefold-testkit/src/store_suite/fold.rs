//! `ApplyStore`: the guard, its verdicts, what is kept of changes and states.

use super::support::{apply, apply_one, entity, event};
use crate::builders::{ChangeBuilder, applies, at, change, event_uuid, item, message};
use oncefold_core::change::Verdict::{self, Applied, Duplicate, Noop, Stale, Tie};
use oncefold_core::store::{EntityFilter, Store};
use std::sync::Arc;

/// Applies one change in an event of its own.
async fn fold(store: &dyn Store, seconds: u64, change: ChangeBuilder) -> Verdict {
    let event_id = format!("{:?}", event_uuid(at(seconds)));
    let message = message("shop", &event_id, "{}").received_at(at(seconds)).build();
    let outcome = apply_one(store, at(seconds), &message, applies(vec![change.build()])).await;
    assert_eq!(outcome.verdicts.len(), 1);
    outcome.verdicts[0]
}

/// Of two equal orders up to the digest, the one whose document has the lower digest first.
fn tied(version: u64) -> [ChangeBuilder; 2] {
    let mut pair = ["left", "right"].map(|side| change("tied", version).document(side).state(&format!("\"{side}\"")));
    pair.sort_by_key(|c| oncefold_core::id::Digest::of(&c.document));
    pair
}

/// Each verdict, each by the order of architecture.md: epoch, version, deleted, rank, digest.
pub async fn each_change_gets_its_verdict(store: Arc<dyn Store>) {
    let s = &*store;
    assert_eq!(fold(s, 1, change("o1", 5)).await, Applied);
    assert_eq!(fold(s, 2, change("o1", 4)).await, Stale);
    assert_eq!(fold(s, 3, change("o1", 5)).await, Duplicate);
    assert_eq!(fold(s, 4, change("o1", 6)).await, Applied);
    let same = change("o1", 6).state.unwrap();
    assert_eq!(fold(s, 5, change("o1", 7).state(&same)).await, Noop);
    assert_eq!(entity(s, "order", "o1").await.version, "7", "a noop moves the key");
    assert_eq!(fold(s, 6, change("o1", 6).rank(9)).await, Stale, "the version comes before the rank");
    assert_eq!(fold(s, 7, change("o1", 7).rank(1)).await, Applied);
    assert_eq!(fold(s, 8, change("o1", 1).epoch(2)).await, Applied, "the epoch comes before the version");
    assert_eq!(fold(s, 9, change("o1", 99)).await, Stale);
    assert_eq!(entity(s, "order", "o1").await.version, "1");
}

/// "Same up to rank, different digest and state, whichever side wins"; with the same state it is none.
pub async fn ties_are_decided_by_digest_and_said(store: Arc<dyn Store>) {
    let s = &*store;
    let [low, high] = tied(1);
    assert_eq!(fold(s, 1, low.clone()).await, Applied);
    assert_eq!(fold(s, 2, high.clone()).await, Tie);
    assert_eq!(entity(s, "order", "tied").await.state, high.state);
    assert_eq!(fold(s, 3, low.clone()).await, Tie, "the other way round too");
    assert_eq!(entity(s, "order", "tied").await.state, high.state, "the higher digest stays");
    assert_eq!(fold(s, 4, high).await, Duplicate);
    let [low, high] = tied(2).map(|c| c.state("\"alike\""));
    assert_eq!(fold(s, 5, low).await, Applied);
    assert_eq!(fold(s, 6, high).await, Noop, "another document, the same state");
}

/// A tombstone has an order key like any change: at an equal version it wins, an older update never revives it, a newer
/// one does.
pub async fn deletes_are_changes(store: Arc<dyn Store>) {
    let s = &*store;
    assert_eq!(fold(s, 1, change("o1", 5)).await, Applied);
    assert_eq!(fold(s, 2, change("o1", 4).delete()).await, Stale);
    assert_eq!(fold(s, 3, change("o1", 5).delete()).await, Applied);
    let gone = entity(s, "order", "o1").await;
    assert_eq!((gone.deleted, gone.state, gone.version.as_str(), gone.updated_at), (true, None, "5", at(3)));
    assert_eq!(fold(s, 4, change("o1", 5).rank(9)).await, Stale);
    assert_eq!(fold(s, 5, change("o1", 6).delete()).await, Noop, "deleted it was");
    assert_eq!(fold(s, 6, change("o1", 7)).await, Applied);
    let back = entity(s, "order", "o1").await;
    assert_eq!((back.deleted, back.state), (false, change("o1", 7).state));
    assert_eq!(fold(s, 7, change("never", 1).delete()).await, Applied);
    assert!(entity(s, "order", "never").await.deleted);
}

/// An empty text is a state like any other, not that of a delete.
pub async fn an_empty_state_is_no_delete(store: Arc<dyn Store>) {
    let s = &*store;
    fold(s, 1, change("o1", 1).state("null")).await;
    let null = entity(s, "order", "o1").await;
    assert_eq!((null.deleted, null.state.as_deref()), (false, Some("null")));
    assert_eq!(fold(s, 2, change("o1", 2).state("\"\"")).await, Applied);
    assert_eq!(entity(s, "order", "o1").await.state.as_deref(), Some("\"\""));
}

/// Changes to one entity within a batch: one winner, each with its verdict, as in the core's fold.
pub async fn a_batch_is_folded_before_it_is_written(store: Arc<dyn Store>) {
    let s = &*store;
    fold(s, 1, change("o1", 3)).await;
    let versions = [5, 2, 5, 4, 3];
    let messages: Vec<_> = (0..versions.len()).map(|n| message("shop", &format!("e{n}"), "{}").build()).collect();
    let items = messages
        .iter()
        .zip(versions)
        .map(|(m, v)| item(m, applies(vec![change("o1", v).build(), change(&format!("own{v}"), 1).build()])));
    let outcomes = apply(s, at(2), items.collect()).await;
    let verdicts: Vec<_> = outcomes.iter().map(|o| o.verdicts[0]).collect();
    assert_eq!(verdicts.iter().filter(|v| **v == Applied).count(), 1, "{verdicts:?}");
    assert_eq!(verdicts[1..2], [Stale]);
    assert_eq!(verdicts[3..], [Stale, Stale]);
    assert!([(Applied, Duplicate), (Duplicate, Applied)].contains(&(verdicts[0], verdicts[2])), "{verdicts:?}");
    assert_eq!(entity(s, "order", "o1").await.version, "5");
    let own: Vec<_> = outcomes.iter().map(|o| o.verdicts[1]).collect();
    assert_eq!((own[1], own[3], own[4]), (Applied, Applied, Applied));
}

/// Two changes of one event to one entity.
pub async fn an_event_may_change_one_entity_twice(store: Arc<dyn Store>) {
    let s = &*store;
    let both = message("shop", "e1", "{}").build();
    let changes = vec![change("o1", 1).build(), change("o1", 2).build(), change("o2", 1).entity("payment").build()];
    let outcome = apply_one(s, at(1), &both, applies(changes)).await;
    assert_eq!(outcome.verdicts, [Stale, Applied, Applied]);
    let kept: Vec<_> = event(s, both.id).await.changes.into_iter().map(|c| (c.key, c.version, c.verdict)).collect();
    let expected = [("o1", "1", Stale), ("o1", "2", Applied), ("o2", "1", Applied)];
    assert_eq!(kept, expected.map(|(key, version, verdict)| (key.to_owned(), version.to_owned(), verdict)));
    assert_eq!(entity(s, "payment", "o2").await.event, both.id);
}

/// What is read is what was folded in: winner, version, moment.
pub async fn an_entity_tells_where_it_is_from(store: Arc<dyn Store>) {
    let s = &*store;
    let first = message("shop", "e1", "{}").build();
    let second = message("shop", "e2", "{}").build();
    apply_one(s, at(1), &first, applies(vec![change("o1", 2).build()])).await;
    apply_one(s, at(2), &second, applies(vec![change("o1", 1).build()])).await;
    let kept = entity(s, "order", "o1").await;
    assert_eq!((kept.entity.as_str(), kept.key.as_str(), kept.version.as_str()), ("order", "o1", "2"));
    assert_eq!((kept.event, kept.updated_at, kept.deleted), (first.id, at(1), false));
    assert_eq!(kept.state.as_deref(), Some(r#"{"key":"o1","version":2}"#));
    assert_eq!(s.entity("payment", "o1").await.unwrap(), None);
}

/// States come back as the canonical text that went in: members in byte order, numbers exact, whatever the dialect
/// makes of JSON.
pub async fn states_come_back_as_they_were(store: Arc<dyn Store>) {
    let huge = format!("{{\"n\":1{}}}", "0".repeat(400));
    let deep = format!("{}1{}", "[".repeat(128), "]".repeat(128));
    let wrapped = format!("{{\"whole\":{deep}}}");
    let states = [
        r#"{"a":9007199254740993,"b":0.10,"c":0.0,"d":123456789012345678901234567890.123456789}"#,
        r#"{"Z":1,"a":2,"aa":3,"b":4,"é":5}"#,
        "\"a\u{FFFD}b\\u0001\\n\\\"\\\\/ \u{1F600} \u{2028}\"",
        r#"[null,true,false,[],{},""]"#,
        r#"{"":{"":""}}"#,
        &huge,
        &deep,
        &wrapped,
    ];
    for (n, state) in states.iter().enumerate() {
        let key = format!("o{n}");
        fold(&*store, 1, change(&key, 1).state(state)).await;
        assert_eq!(entity(&*store, "order", &key).await.state.as_deref(), Some(*state));
    }
    let listed = store.entities(&EntityFilter { limit: 500, ..EntityFilter::default() }).await.unwrap();
    let listed: Vec<_> = listed.into_iter().filter_map(|e| e.state).collect();
    assert_eq!(listed, states, "keys o0 to o7 are in byte order");
}

/// Keys are texts of any characters; they are compared as bytes.
pub async fn keys_are_exact(store: Arc<dyn Store>) {
    let keys = ["a", "A", "á", "a\u{301}", "a ", "a%", "a_", "'", "\\", "日本", "\u{10FFFF}", "O\u{FFFD}"];
    for key in keys {
        assert_eq!(fold(&*store, 1, change(key, 1)).await, Applied, "{key:?} is an entity of its own");
    }
    for key in keys {
        assert_eq!(entity(&*store, "order", key).await.key, key);
    }
    let longest = "k".repeat(oncefold_core::limits::KEY_BYTES_MAX);
    assert_eq!(fold(&*store, 1, change(&longest, 1)).await, Applied);
    assert_eq!(entity(&*store, "order", &longest).await.key, longest);
}
