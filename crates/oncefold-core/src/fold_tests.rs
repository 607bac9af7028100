use super::*;
use crate::id::EntityKind;
use crate::order_key::OrderKeyParts;
use proptest::prelude::*;
use std::collections::BTreeMap;

#[derive(Clone, Debug)]
struct Spec {
    key: u8,
    epoch: u32,
    version: u8,
    deleted: bool,
    rank: u32,
    document: u8,
}

fn change(spec: &Spec) -> Change {
    let parts = OrderKeyParts {
        epoch: spec.epoch,
        terminal: 0,
        version: &[spec.version, 0],
        deleted: spec.deleted,
        rank: spec.rank,
        digest: Digest::of(&[spec.document]),
        context: Digest::of(b""),
    };
    let state = (!spec.deleted).then(|| format!("{{\"d\":{}}}", spec.document / 2));
    Change::of(
        EntityKind::parse("order").unwrap(),
        spec.key.to_string(),
        String::new(),
        OrderKey::encode(&parts),
        state,
    )
}

fn specs() -> impl Strategy<Value = Vec<Spec>> {
    let one = (0u8..3, 1u32..3, 0u8..3, any::<bool>(), 0u32..3, 0u8..4).prop_map(
        |(key, epoch, version, deleted, rank, document)| Spec { key, epoch, version, deleted, rank, document },
    );
    proptest::collection::vec(one, 0..24)
}

/// Entities after writing batches as a store does: fold, then take a winner only where its key is higher.
fn entities(batches: &[Vec<Change>]) -> BTreeMap<String, (OrderKey, Option<String>)> {
    let mut held: BTreeMap<String, (OrderKey, Option<String>)> = BTreeMap::new();
    for batch in batches {
        let refs: Vec<&Change> = batch.iter().collect();
        for at in fold(&refs).winners {
            let change = &batch[at];
            if held.get(&change.key).is_none_or(|(key, _)| *key < change.order_key) {
                held.insert(change.key.clone(), (change.order_key.clone(), change.state.clone()));
            }
        }
    }
    held
}

/// The independent oracle: the fields compared as a tuple, no bytes involved.
fn oracle(specs: &[Spec]) -> BTreeMap<String, Option<String>> {
    let mut best: BTreeMap<String, &Spec> = BTreeMap::new();
    let order = |s: &Spec| (s.epoch, s.version, s.deleted, s.rank, *Digest::of(&[s.document]).as_bytes());
    for spec in specs {
        let winner = best.entry(spec.key.to_string()).or_insert(spec);
        if order(spec) > order(winner) {
            *winner = spec;
        }
    }
    best.into_iter().map(|(key, spec)| (key, change(spec).state)).collect()
}

proptest! {
    #[test]
    fn any_order_duplication_and_batching_gives_the_same_entities(
        specs in specs(), order in proptest::collection::vec((any::<u16>(), any::<prop::sample::Index>()), 0..48), cut in 1usize..9,
    ) {
        let mut delivered: Vec<(u16, Spec)> = specs.iter().enumerate().map(|(i, s)| (order.get(i).map_or(0, |o| o.0), s.clone())).collect();
        if !specs.is_empty() {
            delivered.extend(order.iter().map(|(at, which)| (*at, which.get(&specs).clone())));
        }
        delivered.sort_by_key(|(at, _)| *at);
        let changes: Vec<Change> = delivered.iter().map(|(_, spec)| change(spec)).collect();
        let batches: Vec<Vec<Change>> = changes.chunks(cut).map(<[Change]>::to_vec).collect();
        let folded: BTreeMap<_, _> = entities(&batches).into_iter().map(|(key, (_, state))| (key, state)).collect();
        prop_assert_eq!(folded, oracle(&specs));
    }

    #[test]
    fn every_change_gets_one_verdict_and_one_winner_an_entity(specs in specs()) {
        let changes: Vec<Change> = specs.iter().map(change).collect();
        let refs: Vec<&Change> = changes.iter().collect();
        let folded = fold(&refs);
        let kinds: std::collections::BTreeSet<_> = specs.iter().map(|s| s.key).collect();
        prop_assert_eq!(folded.winners.len(), kinds.len());
        for (at, lost) in folded.lost.iter().enumerate() {
            prop_assert_eq!(lost.is_none(), folded.winners.contains(&at));
            prop_assert!(!matches!(lost, Some(Verdict::Applied | Verdict::Noop)));
        }
        let keys: Vec<_> = folded.winners.iter().map(|at| &changes[*at].key).collect();
        prop_assert!(keys.is_sorted());
    }
}

#[test]
fn verdicts() {
    let base = Spec { key: 0, epoch: 1, version: 1, deleted: false, rank: 0, document: 0 };
    let held = Held::after(&change(&base));
    let judged = |spec: Spec| judge(&change(&spec), Some(&held));
    assert_eq!(judge(&change(&base), None), Verdict::Applied);
    assert_eq!(judged(base.clone()), Verdict::Duplicate);
    assert_eq!(judged(Spec { version: 2, document: 2, ..base.clone() }), Verdict::Applied);
    assert_eq!(judged(Spec { version: 2, ..base.clone() }), Verdict::Noop);
    assert_eq!(judged(Spec { version: 0, document: 2, ..base.clone() }), Verdict::Stale);
    assert_eq!(judged(Spec { document: 2, ..base.clone() }), Verdict::Tie);
    assert_ne!(judged(Spec { document: 1, ..base.clone() }), Verdict::Tie, "another document, the same state");
    assert_eq!(judged(Spec { deleted: true, ..base.clone() }), Verdict::Applied, "at an equal version the delete wins");
    assert_eq!(judged(Spec { rank: 1, document: 2, ..base.clone() }), Verdict::Applied);
    assert_eq!(judged(Spec { epoch: 2, version: 0, document: 2, ..base }), Verdict::Applied);
}
