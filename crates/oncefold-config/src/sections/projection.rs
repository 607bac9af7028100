//! `[[sources.X.projections]]`: which event types change which entities.

use crate::reader::{Node, Place, Schema, Table};
use crate::sections::{identity, state, version};
use oncefold_core::glob::Glob;
use oncefold_core::id::EntityKind;
use oncefold_core::model::{Projection, RankRule, StateRule};

pub(crate) const SCHEMA: Schema = Schema {
    title: "[[sources.X.projections]]",
    keys: &[
        "on",
        "entity",
        "key",
        "version",
        "rank",
        "mode",
        "state",
        "delete_on",
        "delete_version",
        "epoch",
        "shared",
    ],
    later: &[
        "each",
        "keep",
        "terminal",
        "covers",
        "entry",
        "tie",
        "fetched_at",
        "fetch",
        "fields",
        "ledger",
        "effects",
    ],
};
pub(crate) const RANK_SCHEMA: Schema = Schema { title: "`rank`", keys: &["at", "order"], later: &[] };

/// PostgreSQL keeps it as an `integer`.
const EPOCH_MAX: u32 = i32::MAX.unsigned_abs();

/// A projection as far as it could be read.
pub(crate) struct ReadProjection {
    pub projection: Option<Projection>,
    /// The entity kind, whether several sources may write it, and where that is said.
    pub entity: Option<(EntityKind, bool, Place)>,
}

/// `signed_time` is the header with the attempt time of this source's signatures, lower case.
pub(crate) fn read(node: &Node<'_>, signed_time: Option<&str>) -> Option<ReadProjection> {
    let table = node.table(&SCHEMA)?;
    refuse_other_modes(&table);
    let (on, delete_on) = (globs(&table, "on"), globs(&table, "delete_on"));
    if table.get("on").is_none() && table.get("delete_on").is_none() {
        table.missing("on", "list event types, such as on = [\"orders/*\"]");
    }
    let entity = entity(&table);
    let shared = table.get("shared").and_then(|n| n.boolean()).unwrap_or(false);
    let key = key(&table);
    let version = match table.get("version") {
        Some(node) => Some(version::read(&node, signed_time)),
        None => {
            table.missing(
                "version",
                "say what orders changes of one entity, such as version = [\"/updated_at\"]; received_at as a last resort",
            );
            None
        }
    };
    let delete_version = table.get("delete_version").map(|node| {
        if table.get("delete_on").is_none() {
            node.problem("has no effect without `delete_on`", "remove it, or list the event types that delete");
        }
        version::read(&node, signed_time)
    });
    let rank = table.get("rank").map_or(RankRule::None, |node| rank(&node));
    let state = table.get("state").map_or(StateRule::Whole, |node| state::read(&node));
    let epoch = table.get("epoch").and_then(|n| n.integer(1..=EPOCH_MAX)).unwrap_or(1);
    let projection = entity.clone().zip(key).zip(version).map(|(((entity, _), key), version)| Projection {
        name: entity.as_str().to_owned(),
        on,
        entity,
        key,
        version,
        rank,
        state,
        delete_on,
        delete_version: delete_version.unwrap_or_default(),
        epoch,
    });
    Some(ReadProjection { projection, entity: entity.map(|(kind, place)| (kind, shared, place)) })
}

fn refuse_other_modes(table: &Table<'_>) {
    let Some(node) = table.get("mode") else { return };
    if let Some(mode @ ("merge" | "ledger")) =
        node.choice(&[("replace", "replace"), ("merge", "merge"), ("ledger", "ledger")])
    {
        node.problem(format!("mode {mode:?} is not in this version"), "use \"replace\", or remove the projection");
    }
}

/// Patterns of event types: a list, or one.
fn globs(table: &Table<'_>, key: &'static str) -> Vec<Glob> {
    let Some(node) = table.get(key) else { return vec![] };
    let nodes = node.one_or_more();
    if nodes.is_empty() {
        node.problem("is an empty list", "list event types, or remove it");
    }
    nodes.iter().filter_map(glob).collect()
}

fn glob(node: &Node<'_>) -> Option<Glob> {
    let text = node.text("an event type in quotes, such as \"orders/*\"")?;
    if text.is_empty() {
        node.problem("is empty", "write an event type, or \"*\" for every one");
        return None;
    }
    Some(Glob::parse(text))
}

fn entity(table: &Table<'_>) -> Option<(EntityKind, Place)> {
    let Some(node) = table.get("entity") else {
        table.missing("entity", "name the kind of entity, such as entity = \"order\"");
        return None;
    };
    match EntityKind::parse(node.text("the kind of entity, such as \"order\"")?) {
        Ok(kind) => Some((kind, node.place)),
        Err(e) => {
            node.problem(e.to_string(), "rename it");
            None
        }
    }
}

fn key(table: &Table<'_>) -> Option<Vec<oncefold_core::locator::Locator>> {
    let Some(node) = table.get("key") else {
        table.missing("key", "say where the entity's key stands, such as key = \"/id\"");
        return None;
    };
    identity::parts(&node)
}

fn rank(node: &Node<'_>) -> RankRule {
    if !node.is_table() {
        let items = node.items("a list of event types, or { at = \"/status\", order = [\"pending\", \"paid\"] }");
        return RankRule::Types(items.unwrap_or_default().iter().filter_map(glob).collect());
    }
    let Some(table) = node.table(&RANK_SCHEMA) else { return RankRule::None };
    let at = table.get("at").map(|n| n.locator());
    let order = table.get("order").map(|node| {
        let items = node.items("a list of values, lowest first").unwrap_or_default();
        if items.is_empty() && node.value.is_array() {
            node.problem("is an empty list", "list the values, lowest first");
        }
        let values = items.iter().filter_map(|n| n.text("a value in quotes")).map(str::to_owned);
        values.collect::<Vec<_>>()
    });
    if at.is_none() {
        table.missing("at", "say where the ranked value stands, such as at = \"/status\"");
    }
    if order.is_none() {
        table.missing("order", "list the values, lowest first");
    }
    match (at.flatten(), order) {
        (Some(at), Some(order)) => RankRule::Value { at, order },
        _ => RankRule::None,
    }
}
