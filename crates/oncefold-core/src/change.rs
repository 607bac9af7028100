//! A change: what one event means for one entity; and the verdict on it.

use crate::id::{Digest, EntityKind};
use crate::order_key::OrderKey;
use std::fmt;

/// What one event means for one entity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The kind of entity.
    pub entity: EntityKind,
    /// Which one.
    pub key: String,
    /// The version, as it is shown.
    pub version: String,
    /// Its place in the total order of the entity's changes.
    pub order_key: OrderKey,
    /// The state as canonical JSON text; none for a delete.
    pub state: Option<String>,
    /// Digest of that text; of nothing for a delete.
    pub state_digest: Digest,
}

impl Change {
    /// A change to `state`, or a delete where there is none.
    pub fn of(entity: EntityKind, key: String, version: String, order_key: OrderKey, state: Option<String>) -> Self {
        let state_digest = Digest::of(state.as_deref().unwrap_or_default().as_bytes());
        Self { entity, key, version, order_key, state, state_digest }
    }

    /// Whether it deletes the entity.
    pub const fn is_delete(&self) -> bool {
        self.state.is_none()
    }
}

/// What became of a change (architecture.md, "The fold").
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verdict {
    /// Key and state changed.
    Applied,
    /// A newer key with the same state: the key still advances.
    Noop,
    /// An older key.
    Stale,
    /// Same up to the rank, another document and another state, whichever side wins by digest.
    Tie,
    /// The very key the entity has, or that another change of the batch has.
    Duplicate,
}

impl Verdict {
    /// Every verdict.
    pub const ALL: [Self; 5] = [Self::Applied, Self::Noop, Self::Stale, Self::Tie, Self::Duplicate];

    /// Its name in the API, the database and metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Applied => "applied",
            Self::Noop => "noop",
            Self::Stale => "stale",
            Self::Tie => "tie",
            Self::Duplicate => "duplicate",
        }
    }

    /// The verdict of this name.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|v| v.as_str() == text)
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
