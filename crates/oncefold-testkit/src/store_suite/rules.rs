//! `RulesStore`, and batches made under old rules.

use super::support::event;
use crate::builders::{applies, at, batch, change, item, message, source};
use oncefold_core::id::Digest;
use oncefold_core::store::{Rule, RuleConflict, SourceRecord, Store, StoreError};
use std::sync::Arc;

fn rule(source_name: &str, projection: &str, epoch: u32, what: &str) -> Rule {
    let fingerprint = Digest::of(what.as_bytes());
    Rule { source: source(source_name), projection: projection.to_owned(), epoch, fingerprint }
}

/// "Every source that was ever registered", with the moment of the first time.
pub async fn sources_stay_known(store: Arc<dyn Store>) {
    let s = &*store;
    assert_eq!(s.known_sources().await.unwrap(), []);
    s.register(&[source("shop"), source("bank")], &[], at(1)).await.unwrap();
    s.register(&[source("shop"), source("a_b-c")], &[], at(2)).await.unwrap();
    s.register(&[], &[], at(3)).await.unwrap();
    let names = ["a_b-c", "bank", "shop"].map(source);
    assert_eq!(s.known_sources().await.unwrap(), names);
    let [a, b, c] = names;
    let expected =
        [(a, at(2)), (b, at(1)), (c, at(1))].map(|(name, first_seen_at)| SourceRecord { name, first_seen_at });
    assert_eq!(s.sources().await.unwrap(), expected);
}

/// "Answers the store's rules version … it grows whenever an epoch is raised", and by nothing else.
pub async fn the_version_grows_with_an_epoch(store: Arc<dyn Store>) {
    let s = &*store;
    let register = |rules: Vec<Rule>| async move { s.register(&[], &rules, at(1)).await };
    let zero = register(vec![rule("shop", "order", 1, "a"), rule("shop", "order#2", 1, "b")]).await.unwrap();
    assert_eq!(register(vec![rule("shop", "order", 1, "a")]).await.unwrap(), zero, "known");
    assert_eq!(register(vec![rule("bank", "order", 3, "c")]).await.unwrap(), zero, "new");
    assert_eq!(register(vec![]).await.unwrap(), zero);
    let one = register(vec![rule("shop", "order", 2, "a2"), rule("shop", "order#2", 1, "b")]).await.unwrap();
    assert!(one > zero);
    assert_eq!(register(vec![rule("shop", "order", 2, "a2")]).await.unwrap(), one);
    let two = register(vec![rule("shop", "order", 5, "a2")]).await.unwrap();
    assert!(two > one, "an epoch may be raised without a change");
}

/// "When a rule changed without its epoch, or the store's epoch is higher; then nothing is written."
pub async fn conflicting_rules_are_refused(store: Arc<dyn Store>) {
    let s = &*store;
    let version = s.register(&[source("shop")], &[rule("shop", "order", 2, "a")], at(1)).await.unwrap();
    let both = [rule("shop", "payment", 1, "p"), rule("shop", "order", 2, "b")];
    match s.register(&[source("bank")], &both, at(2)).await {
        Err(RuleConflict::Changed { source_name, projection, next_epoch }) => {
            assert_eq!((source_name.as_str(), &*projection, next_epoch), ("shop", "order", 3));
        }
        other => panic!("{other:?}"),
    }
    match s.register(&[source("bank")], &[rule("shop", "order", 1, "a")], at(2)).await {
        Err(RuleConflict::Behind { source_name, projection, stored, configured }) => {
            assert_eq!((source_name.as_str(), &*projection, stored, configured), ("shop", "order", 2, 1));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(s.known_sources().await.unwrap(), [source("shop")]);
    let rules = [rule("shop", "payment", 1, "other"), rule("shop", "order", 2, "a")];
    assert_eq!(s.register(&[], &rules, at(3)).await.unwrap(), version, "payment was not written");
}

/// "The batch commits nothing if the store's is higher."
pub async fn a_batch_under_old_rules_commits_nothing(store: Arc<dyn Store>) {
    let s = &*store;
    let old = s.register(&[], &[rule("shop", "order", 1, "a")], at(1)).await.unwrap();
    let new = s.register(&[], &[rule("shop", "order", 2, "b")], at(2)).await.unwrap();
    let first = message("shop", "e1", "{}").build();
    let mut batch = batch(at(3), vec![item(&first, applies(vec![change("o1", 1).build()]))]);
    batch.rules_version = old;
    assert!(matches!(s.apply(batch.clone()).await, Err(StoreError::RulesBehind)));
    assert_eq!(s.event(first.id).await.unwrap(), None);
    assert_eq!(s.entity("order", "o1").await.unwrap(), None);
    batch.rules_version = new;
    s.apply(batch).await.unwrap();
    assert_eq!(event(s, first.id).await.deliveries, 1);
}

/// Workers that start at once with the same rules agree.
pub async fn registrations_at_once_agree(store: Arc<dyn Store>) {
    let starts = (0..6).map(|_| {
        let store = Arc::clone(&store);
        tokio::spawn(async move {
            for _ in 0..100 {
                match store.register(&[source("shop")], &[rule("shop", "order", 1, "a")], at(1)).await {
                    Err(RuleConflict::Store(StoreError::Conflict(_))) => {}
                    answer => return answer.unwrap(),
                }
            }
            panic!("a hundred conflicts");
        })
    });
    let mut versions = vec![];
    for start in starts.collect::<Vec<_>>() {
        versions.push(start.await.unwrap());
    }
    versions.dedup();
    assert_eq!(versions.len(), 1);
}
