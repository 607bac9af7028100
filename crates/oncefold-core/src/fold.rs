//! **The fold.** Of all changes to one entity the one with the highest order key wins. The order is total, so
//! "take the higher" is a join: commutative, associative and idempotent, whatever the order, duplication, batching
//! or number of workers.

use crate::change::{Change, Verdict};
use crate::id::Digest;
use crate::order_key::OrderKey;
use std::collections::HashMap;

/// What an entity holds, as far as a verdict needs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// The winning key.
    pub order_key: OrderKey,
    /// Digest of the state text; of nothing where deleted.
    pub state_digest: Digest,
    /// Whether the entity is a tombstone.
    pub deleted: bool,
}

impl Held {
    /// What an entity holds after `change` won.
    pub fn after(change: &Change) -> Self {
        Self { order_key: change.order_key.clone(), state_digest: change.state_digest, deleted: change.is_delete() }
    }
}

/// The verdict on `change` where the entity holds `held`.
pub fn judge(change: &Change, held: Option<&Held>) -> Verdict {
    let Some(held) = held else { return Verdict::Applied };
    let same_state = held.state_digest == change.state_digest && held.deleted == change.is_delete();
    if change.order_key == held.order_key {
        Verdict::Duplicate
    } else if change.order_key.ties_with(&held.order_key) && !same_state {
        Verdict::Tie
    } else if change.order_key < held.order_key {
        Verdict::Stale
    } else if same_state {
        Verdict::Noop
    } else {
        Verdict::Applied
    }
}

/// A batch folded in memory: at most one change an entity is left to be written.
#[derive(Debug)]
pub struct Folded {
    /// Positions (in the folded list) of the winning changes, in the order of (entity, key), so that every
    /// writer locks rows in one order.
    pub winners: Vec<usize>,
    /// A verdict for each change that lost to another of the batch; nothing for winners, which the store judges.
    pub lost: Vec<Option<Verdict>>,
}

/// Folds the changes of a batch.
pub fn fold(changes: &[&Change]) -> Folded {
    let mut best: HashMap<(&str, &str), usize> = HashMap::with_capacity(changes.len());
    for (at, change) in changes.iter().enumerate() {
        let winner = best.entry((change.entity.as_str(), &change.key)).or_insert(at);
        if change.order_key > changes[*winner].order_key {
            *winner = at;
        }
    }
    let mut winners: Vec<usize> = best.values().copied().collect();
    winners.sort_unstable_by_key(|at| (changes[*at].entity.as_str(), changes[*at].key.as_str()));
    let lost = changes.iter().enumerate().map(|(at, change)| {
        let winner = best[&(change.entity.as_str(), change.key.as_str())];
        (winner != at).then(|| judge(change, Some(&Held::after(changes[winner]))))
    });
    Folded { lost: lost.collect(), winners }
}

#[cfg(test)]
#[path = "fold_tests.rs"]
mod tests;
