//! Writing entities: the statement judges as the fold does, and writers of the same entities do not get into each
//! other's way.

use crate::database::Databases;
use oncefold_core::change::{Change, Verdict};
use oncefold_core::fold::{Held, judge};
use oncefold_core::store::{ApplyStore as _, Settled, StoreError};
use oncefold_testkit::builders::{applies, at, batch, change, item, message};
use sqlx::{Executor as _, Row as _};
use std::collections::{BTreeMap, HashSet};

/// Changes that are below, the same as, tied with and above each other, in one of two states or deleting.
fn shades(key: &str) -> Vec<Change> {
    let mut shades = vec![];
    for version in [1, 2] {
        for rank in [0, 1] {
            for document in ["a", "b", "c"] {
                let of = change(key, version).rank(rank).document(document);
                shades.extend(["1", "2"].map(|state| of.clone().state(state).build()));
                shades.push(of.delete().build());
            }
        }
    }
    shades
}

/// Every pair of them, one pair an entity.
#[tokio::test]
async fn the_database_judges_as_the_fold_does() {
    let databases = Databases::start().await;
    let store = databases.store().await;
    let count = shades("").len();
    let mut pairs = vec![];
    for (first, second) in (0..count).flat_map(|first| (0..count).map(move |second| (first, second))) {
        let key = format!("{first}/{second}");
        pairs.push((shades(&key).swap_remove(first), shades(&key).swap_remove(second)));
    }
    let write = |name: &str, changes: Vec<Change>| {
        batch(at(1), vec![item(&message("shop", name, "{}").build(), applies(changes))])
    };
    let (first, second): (Vec<_>, Vec<_>) = pairs.iter().cloned().unzip();
    let outcomes = store.apply(write("first", first)).await.unwrap();
    assert!(outcomes[0].verdicts.iter().all(|verdict| *verdict == Verdict::Applied), "nothing was there");
    let outcomes = store.apply(write("second", second)).await.unwrap();
    let mut expected = BTreeMap::new();
    for ((first, second), given) in pairs.iter().zip(&outcomes[0].verdicts) {
        let verdict = judge(second, Some(&Held::after(first)));
        assert_eq!(*given, verdict, "{first:?} before {second:?}");
        let wins = second.order_key > first.order_key;
        expected.insert(second.key.clone(), if wins { verdict } else { Verdict::Applied }.as_str());
    }
    let met: HashSet<Verdict> = outcomes[0].verdicts.iter().copied().collect();
    assert_eq!(met.len(), Verdict::ALL.len(), "every verdict was met");
    let kept = sqlx::query("SELECT key, verdict FROM entities").fetch_all(&mut databases.connection().await).await;
    let kept: BTreeMap<String, String> = kept.unwrap().iter().map(|row| (row.get(0), row.get(1))).collect();
    assert!(
        kept.iter()
            .map(|(key, verdict)| (key.as_str(), verdict.as_str()))
            .eq(expected.iter().map(|(k, v)| (k.as_str(), *v)))
    );
}

/// Batches that create and move the same entities at once take them in one order: none has to be done again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writers_of_the_same_entities_wait_for_each_other_in_one_order() {
    let databases = Databases::start().await;
    let store = databases.store().await;
    const WRITERS: u64 = 4;
    const ROUNDS: u64 = 30;
    let writers = (0..WRITERS).map(|writer| {
        let store = store.clone();
        tokio::spawn(async move {
            for round in 0..ROUNDS {
                // Of each hundred keys every writer has another half; those of the round before are there already.
                let keys = (round * 50..round * 50 + 100).filter(|key| (key / (writer + 1)) % 2 == 0);
                let items = keys.map(|key| {
                    let message = message("shop", &format!("{writer}/{round}/{key}"), "{}").build();
                    let version = round * WRITERS + writer;
                    item(&message, applies(vec![change(&format!("k{}", key * 7919 % 10_007), version).build()]))
                });
                let outcomes = store.apply(batch(at(1), items.collect())).await.expect("it waits, and is written");
                assert!(outcomes.iter().all(|outcome| outcome.settled == Settled::Applied));
            }
        })
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.await.expect("the writer ends");
    }
}

/// A trigger that keeps a row as it was: nothing says that the change was applied.
#[tokio::test]
async fn a_change_that_a_trigger_refused_is_not_recorded_as_applied() {
    let databases = Databases::start().await;
    let store = databases.store().await;
    let of = |id: &str, version| {
        batch(at(1), vec![item(&message("shop", id, "{}").build(), applies(vec![change("o1", version).build()]))])
    };
    store.apply(of("e1", 1)).await.unwrap();
    databases
        .connection()
        .await
        .execute(
            "CREATE FUNCTION keep() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$;
             CREATE TRIGGER keep BEFORE UPDATE ON entities FOR EACH ROW EXECUTE FUNCTION keep();",
        )
        .await
        .unwrap();
    let failed = store.apply(of("e2", 2)).await;
    assert!(matches!(&failed, Err(StoreError::Failed(text)) if text.contains("trigger")), "{failed:?}");
    let events = sqlx::query_scalar("SELECT event_id FROM events").fetch_all(&mut databases.connection().await).await;
    let events: Vec<String> = events.unwrap();
    assert_eq!(events, ["e1"]);
}
