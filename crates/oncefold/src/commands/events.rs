//! `events`: the event log, straight from the store.

use super::store_access;
use crate::cli::{EventFilters, Events};
use crate::clock::SystemClock;
use crate::failure::{Ended, Failure};
use crate::output;
use anyhow::Context as _;
use oncefold_admin::present;
use oncefold_core::store::{EventFilter, EventRecord, Replay, Store};
use oncefold_core::{Clock as _, EventStatus};
use std::path::Path;

pub async fn run(verb: Events, config: Option<&Path>, as_json: bool) -> Result<Ended, Failure> {
    let store = store_access::open(config).await?;
    match verb {
        Events::List { filters, status, entity, key, event_id } => {
            let mut filter = event_filter(&filters)?;
            filter.status = status.as_deref().map(parse_status).transpose()?;
            (filter.entity, filter.key, filter.event_id) = (entity, key, event_id);
            list(store.as_ref(), filter, as_json).await
        }
        Events::Show { id, body } => show(store.as_ref(), &id, body, as_json).await,
        Events::Replay { ids } => replay(store.as_ref(), &ids).await,
    }
}

/// The filters that events and dead letters share.
pub fn event_filter(filters: &EventFilters) -> Result<EventFilter, Failure> {
    let cursor = filters.cursor.as_deref();
    let before =
        cursor.map(|c| present::parse_event_cursor(c).ok_or_else(|| Failure::config("--cursor is none of ours")));
    Ok(EventFilter {
        source: filters.source.clone(),
        event_type: filters.event_type.clone(),
        since: store_access::moment("since", filters.since.as_ref())?,
        until: store_access::moment("until", filters.until.as_ref())?,
        before: before.transpose()?,
        limit: filters.limit,
        ..EventFilter::default()
    })
}

fn parse_status(text: &str) -> Result<EventStatus, Failure> {
    let names = || EventStatus::ALL.map(EventStatus::as_str).join(", ");
    EventStatus::parse(text).ok_or_else(|| Failure::config(format!("--status `{text}` is none of: {}", names())))
}

async fn list(store: &dyn Store, filter: EventFilter, as_json: bool) -> Result<Ended, Failure> {
    let (items, next) = page(store, filter).await?;
    if as_json {
        output::json(&present::page(items.iter().map(present::event).collect(), next))?;
        return Ok(Ended::Done);
    }
    let rows: Vec<_> = items.iter().map(row).collect();
    output::line(&output::table(&["id", "received", "source", "type", "status", "event id", "what"], &rows))?;
    more(next);
    Ok(Ended::Done)
}

/// A page, and the cursor of the next one if there is one.
pub async fn page(store: &dyn Store, filter: EventFilter) -> Result<(Vec<EventRecord>, Option<String>), Failure> {
    let limit = filter.limit as usize;
    let mut items = store.events(&EventFilter { limit: filter.limit + 1, ..filter }).await?;
    let more = items.len() > limit;
    items.truncate(limit);
    let next = items.last().filter(|_| more).map(|last| present::event_cursor(last.id));
    Ok((items, next))
}

/// Says how to go on.
pub fn more(next: Option<String>) {
    if let Some(cursor) = next {
        output::say(&format_args!("more: --cursor {cursor}"));
    }
}

/// An event in a table.
pub fn row(event: &EventRecord) -> Vec<String> {
    let what = match (&event.error, event.changes.as_slice()) {
        (Some((reason, _)), _) => reason.clone(),
        (None, changes) => {
            let shown = changes.iter().map(|c| format!("{} {} {}", c.entity, c.key, c.verdict));
            shown.collect::<Vec<_>>().join(", ")
        }
    };
    vec![
        event.id.to_string(),
        event.received_at.to_rfc3339(),
        event.source.to_string(),
        printable(event.event_type.as_deref().unwrap_or("-")),
        event.status.to_string(),
        printable(&event.event_id),
        printable(&what),
    ]
}

/// Text from outside, without what would move the terminal's cursor.
pub fn printable(text: &str) -> String {
    text.chars().flat_map(|c| if c.is_control() { c.escape_default().collect::<Vec<_>>() } else { vec![c] }).collect()
}

/// One event as JSON, dead or not; or its exact body.
pub async fn show(store: &dyn Store, id: &str, body: bool, as_json: bool) -> Result<Ended, Failure> {
    let id = store_access::event_id(id)?;
    if body {
        let stored = store.body(id).await?.context("there is no such event, or retention dropped its body")?;
        output::bytes(&stored.body)?;
        return Ok(Ended::Done);
    }
    let event = store.event(id).await?.context("there is no such event")?;
    let shown = present::event_with_attempts(&event, &store.attempts(id).await?);
    if as_json {
        output::json(&shown)?;
    } else {
        output::line(&readable(&shown, 0).trim_end())?;
    }
    Ok(Ended::Done)
}

/// JSON as indented `name: value` lines.
fn readable(value: &serde_json::Value, depth: usize) -> String {
    use serde_json::Value;
    let indent = "  ".repeat(depth);
    match value {
        Value::Object(members) => {
            let line = |(name, value): (&String, &Value)| match value {
                Value::Object(inner) if !inner.is_empty() => format!("{indent}{name}:\n{}", readable(value, depth + 1)),
                Value::Array(items) if !items.is_empty() => format!("{indent}{name}:\n{}", readable(value, depth + 1)),
                Value::String(text) => format!("{indent}{name}: {}\n", printable(text)),
                other => format!("{indent}{name}: {other}\n"),
            };
            members.iter().map(line).collect()
        }
        Value::Array(items) => {
            items.iter().map(|item| format!("{indent}- {}\n", printable(&item.to_string()))).collect()
        }
        other => format!("{indent}{other}\n"),
    }
}

/// Puts events back on the queue; fails if any could not be.
pub async fn replay(store: &dyn Store, ids: &[String]) -> Result<Ended, Failure> {
    let mut ended = Ended::Done;
    for text in ids {
        let replay = Replay { id: store_access::event_id(text)?, actor: store_access::actor(), now: SystemClock.now() };
        match store.replay(&replay).await? {
            Ok(()) => output::line(&format_args!("{text}: queued"))?,
            Err(refusal) => {
                output::complain(&store_access::refused(text, "replayed", refusal));
                ended = Ended::Found;
            }
        }
    }
    Ok(ended)
}
