//! `version` and `delete_version` of a projection.

use crate::reader::{Node, Schema, Table};
use jiff::tz::TimeZone;
use oncefold_core::locator::Locator;
use oncefold_core::version::{VersionKind, VersionRule};

pub(crate) const SCHEMA: Schema =
    Schema { title: "an element of `version`", keys: &["at", "type", "zone"], later: &[] };

/// Headers that say when a delivery was tried: a retry of an old event carries a newer one than a fresh event.
const ATTEMPT_TIMES: [&str; 8] = [
    "svix-timestamp",
    "webhook-timestamp",
    "x-slack-request-timestamp",
    "x-hubspot-request-timestamp",
    "x-zendesk-webhook-signature-timestamp",
    "x-signature-timestamp",
    "paypal-transmission-time",
    "date",
];
const KINDS: [(&str, VersionKind); 6] = [
    ("int", VersionKind::Int),
    ("decimal", VersionKind::Decimal),
    ("text", VersionKind::Text),
    ("instant", VersionKind::Instant),
    ("unix_s", VersionKind::UnixS),
    ("unix_ms", VersionKind::UnixMs),
];

/// The elements; `signed_time` is the header with the attempt time of this source's signatures, lower case.
pub(crate) fn read(node: &Node<'_>, signed_time: Option<&str>) -> Vec<VersionRule> {
    let elements = node.one_or_more();
    if elements.is_empty() {
        node.problem("is an empty list", "state at least one element, such as \"/updated_at\"");
    }
    elements.iter().filter_map(|element| rule(element, signed_time)).collect()
}

fn rule(node: &Node<'_>, signed_time: Option<&str>) -> Option<VersionRule> {
    if node.is_table() {
        return typed(&node.table(&SCHEMA)?, signed_time);
    }
    match node.text("a place such as \"/updated_at\", or { at = \"/created\", type = \"unix_s\" }")? {
        "received_at" => {
            node.context.warn(
                &node.place,
                "received_at is a weak version: it orders by arrival here, not by what happened at the provider",
                "use a version of the body if there is one",
            );
            Some(VersionRule::ReceivedAt)
        }
        "fetched_at" => {
            node.problem("fetched_at is not in this version", "use a version of the body, or received_at");
            None
        }
        text => match text.strip_prefix("ksuid:") {
            None => at(node, node.locator()?, signed_time, (None, None)),
            Some(place) => match Locator::parse(place) {
                Ok(locator) => Some(VersionRule::Ksuid(locator)),
                Err(e) => {
                    node.problem(e.to_string(), "write \"ksuid:header:svix-id\" or \"ksuid:/pointer\"");
                    None
                }
            },
        },
    }
}

fn typed(table: &Table<'_>, signed_time: Option<&str>) -> Option<VersionRule> {
    let kind = table.get("type").map(|n| n.choice(&KINDS));
    let zone = table.get("zone").map(|node| {
        if !matches!(kind, None | Some(None | Some(VersionKind::Instant))) {
            node.problem("only instants have a zone", "remove `zone`, or set type = \"instant\"");
        }
        zone(&node)
    });
    let Some(node) = table.get("at") else {
        table.missing("at", "say where the version stands, such as at = \"/updated_at\"");
        return None;
    };
    // What was stated and could not be read is recorded; the rule without it would be another one.
    let (kind, zone) = (kind.map_or(Some(None), |k| k.map(Some))?, zone.map_or(Some(None), |z| z.map(Some))?);
    at(&node, node.locator()?, signed_time, (kind, zone))
}

fn zone(node: &Node<'_>) -> Option<TimeZone> {
    let name = node.text("the name of a time zone, such as \"Europe/Prague\"")?;
    let zone = TimeZone::get(name).ok();
    if zone.is_none() {
        node.problem("is no time zone of the IANA database", "write one such as \"Europe/Prague\" or \"UTC\"");
    }
    zone
}

fn at(
    node: &Node<'_>,
    at: Locator,
    signed_time: Option<&str>,
    (kind, zone): (Option<VersionKind>, Option<TimeZone>),
) -> Option<VersionRule> {
    match &at {
        Locator::Header(name) if ATTEMPT_TIMES.contains(&name.as_str()) || signed_time == Some(name) => {
            node.problem(
                format!(
                    "{name} is the time of the attempt, not of the event: a late retry would overwrite newer state"
                ),
                "use a version of the body; at Svix \"ksuid:header:svix-id\" is the time of the message",
            );
            None
        }
        Locator::Const(_) => {
            node.problem("a constant orders nothing", "say where the version stands in the delivery");
            None
        }
        _ => Some(VersionRule::At { at, kind, zone }),
    }
}
