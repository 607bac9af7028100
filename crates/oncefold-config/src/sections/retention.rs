//! `[retention]`: how long what is settled is kept.

use crate::reader::{Schema, Table};
use oncefold_core::limits::IDS_RETENTION_MIN;
use std::time::Duration;

pub(crate) const SCHEMA: Schema = Schema { title: "[retention]", keys: &["ids", "bodies"], later: &[] };

const DAY: Duration = Duration::from_secs(86_400);
const MAX: Duration = Duration::from_secs(3_650 * 86_400);
const BODIES_MIN: Duration = Duration::from_secs(3600);

/// How long what is settled is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retention {
    /// How long event ids are remembered; at least 72 h.
    pub ids: Duration,
    /// How long bodies are kept; never longer than ids.
    pub bodies: Duration,
}

impl Default for Retention {
    fn default() -> Self {
        Self { ids: DAY * 35, bodies: DAY * 30 }
    }
}

pub(crate) fn read(root: &Table<'_>) -> Retention {
    let section = root.section("retention", &SCHEMA);
    let default = Retention::default();
    let ids = section.get("ids").and_then(|n| n.duration(IDS_RETENTION_MIN..=MAX)).unwrap_or(default.ids);
    let Some(node) = section.get("bodies") else { return Retention { ids, bodies: default.bodies.min(ids) } };
    let bodies = node.duration(BODIES_MIN..=MAX).unwrap_or_else(|| default.bodies.min(ids));
    if bodies > ids {
        node.problem("bodies would be kept longer than the ids of their events", "raise `ids` or lower `bodies`");
    }
    Retention { ids, bodies }
}
