//! `state` of a projection: name = place.

use crate::reader::{Node, Schema};
use oncefold_core::model::{FieldKind, FieldRule, StateRule};
use oncefold_core::version::VersionKind;

pub(crate) const SCHEMA: Schema = Schema { title: "a field of `state`", keys: &["at", "type"], later: &["zone"] };

const NAME_BYTES_MAX: usize = 128;
const KINDS: [(&str, FieldKind); 7] = [
    ("text", FieldKind::Text),
    ("bool", FieldKind::Bool),
    ("int", FieldKind::Version(VersionKind::Int)),
    ("decimal", FieldKind::Version(VersionKind::Decimal)),
    ("instant", FieldKind::Version(VersionKind::Instant)),
    ("unix_s", FieldKind::Version(VersionKind::UnixS)),
    ("unix_ms", FieldKind::Version(VersionKind::UnixMs)),
];

pub(crate) fn read(node: &Node<'_>) -> StateRule {
    let expected =
        "a table of fields, such as { status = \"/status\", total = { at = \"/total\", type = \"decimal\" } }";
    let Some(members) = node.members(expected) else { return StateRule::Whole };
    if members.is_empty() {
        node.problem("has no fields", "add some, or remove `state` to keep the whole body");
    }
    StateRule::Fields(members.iter().filter_map(|(name, node)| field(name, node)).collect())
}

fn field(name: &str, node: &Node<'_>) -> Option<FieldRule> {
    if name.is_empty() || name.len() > NAME_BYTES_MAX || name.chars().any(char::is_control) {
        node.problem("is no name for a field", format!("use 1 to {NAME_BYTES_MAX} bytes without control characters"));
        return None;
    }
    if !node.is_table() {
        return Some(FieldRule { name: name.to_owned(), at: node.locator()?, kind: None });
    }
    let table = node.table(&SCHEMA)?;
    let kind = table.get("type").and_then(|n| n.choice(&KINDS));
    let Some(at) = table.get("at") else {
        table.missing("at", "say where the value stands, such as at = \"/status\"");
        return None;
    };
    Some(FieldRule { name: name.to_owned(), at: at.locator()?, kind })
}
