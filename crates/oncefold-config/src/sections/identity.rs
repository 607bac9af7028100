//! `id` and `type` of a source, and the parts of ids and keys.

use crate::reader::{Node, Schema, Table};
use oncefold_core::locator::Locator;
use oncefold_core::model::IdRule;
use std::ops::RangeInclusive;
use std::time::Duration;

pub(crate) const ID_SCHEMA: Schema =
    Schema { title: "`id` of a source", keys: &["derive", "window", "first"], later: &[] };
pub(crate) const PART_SCHEMA: Schema =
    Schema { title: "a part of `id` or `key`, or `type`", keys: &["at", "first", "optional"], later: &[] };

const WINDOW: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(35 * 86_400);

/// Both, of the source in this table; with projections they have to be stated.
pub(crate) fn read(table: &Table<'_>, has_projections: bool) -> (IdRule, Locator) {
    let id = match table.get("id") {
        Some(node) => id_rule(&node).unwrap_or(IdRule::BodyDigest),
        None => {
            if has_projections {
                table.missing(
                    "id",
                    "say where the event id stands, such as id = \"/id\", or { derive = [\"/a\", \"/b\"] }",
                );
            }
            IdRule::BodyDigest
        }
    };
    let fallback = || Locator::Pointer(vec!["type".to_owned()]);
    let event_type = match table.get("type") {
        Some(node) => part(&node).unwrap_or_else(fallback),
        None => {
            if has_projections {
                table.missing("type", "say where the event type stands, such as type = \"/type\", or \"const:order\"");
            }
            fallback()
        }
    };
    (id, event_type)
}

fn id_rule(node: &Node<'_>) -> Option<IdRule> {
    if !node.is_table() {
        return parts(node).map(IdRule::Parts);
    }
    let table = node.table(&ID_SCHEMA)?;
    let window = table.get("window").and_then(|node| {
        let window = node.duration(WINDOW)?;
        if window.subsec_millis() != 0 {
            node.problem("windows are of whole seconds", "write whole seconds, such as \"900s\"");
        }
        Some((window, node))
    });
    match (table.get("derive"), table.get("first")) {
        (Some(derive), None) => {
            let window = window.map(|(window, _)| window);
            parts(&derive).map(|places| IdRule::Derive { places, window })
        }
        (None, Some(first)) => {
            if let Some((_, node)) = window {
                node.problem("`window` belongs to `derive`", "remove it: an id that the provider gives stays the same");
            }
            let lists = first.items("a list of places, or of lists of parts").unwrap_or_default();
            if lists.is_empty() && first.value.is_array() {
                first.problem("is an empty list", "list places, such as [\"header:svix-id\", \"header:webhook-id\"]");
                return None;
            }
            lists.iter().map(parts).collect::<Option<Vec<_>>>().map(IdRule::FirstOf)
        }
        (Some(_), Some(first)) => {
            first.problem("`first` and `derive` exclude each other", "keep one of them");
            None
        }
        (None, None) => {
            table.missing("derive", "list pointers to derive the id from, or places with `first`");
            None
        }
    }
}

/// A place, or the parts of a list.
pub(crate) fn parts(node: &Node<'_>) -> Option<Vec<Locator>> {
    let parts = node.one_or_more();
    if parts.is_empty() {
        node.problem("is an empty list", "say where it stands, such as \"/id\"");
        return None;
    }
    parts.iter().map(part).collect()
}

/// A place, or a table that says more of it.
pub(crate) fn part(node: &Node<'_>) -> Option<Locator> {
    if !node.is_table() {
        return node.locator();
    }
    let table = node.table(&PART_SCHEMA)?;
    let optional = table.get("optional").and_then(|n| n.boolean()) == Some(true);
    let place = match (table.get("at"), table.get("first")) {
        (Some(at), None) => at.locator()?,
        (None, Some(first)) => Locator::First(parts(&first)?),
        (Some(_), Some(first)) => {
            first.problem("`at` and `first` exclude each other", "keep one of them");
            return None;
        }
        (None, None) => {
            table.missing("at", "say where it stands, such as at = \"/account\", or list places with `first`");
            return None;
        }
    };
    Some(if optional { Locator::Optional(Box::new(place)) } else { place })
}
