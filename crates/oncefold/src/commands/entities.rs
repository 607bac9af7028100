//! `entities`: folded state, straight from the store.

use super::{events, store_access};
use crate::cli::Entities;
use crate::failure::{Ended, Failure};
use crate::output;
use anyhow::Context as _;
use oncefold_admin::present;
use oncefold_core::store::{EntityFilter, EntityRecord, Store};
use std::path::Path;

pub async fn run(verb: Entities, config: Option<&Path>, as_json: bool) -> Result<Ended, Failure> {
    let store = store_access::open(config).await?;
    match verb {
        Entities::Get { entity, key } => {
            let record = store.entity(&entity, &key).await?.with_context(|| format!("there is no {entity} {key}"))?;
            output::json(&present::entity(&record))?;
        }
        Entities::List { entity, key_prefix, deleted, limit, cursor } => {
            let after = cursor
                .map(|c| present::parse_entity_cursor(&c).ok_or_else(|| Failure::config("--cursor is none of ours")));
            let filter = EntityFilter { entity, key_prefix, deleted, after: after.transpose()?, limit };
            list(store.as_ref(), filter, as_json).await?;
        }
        Entities::History { entity, key, limit, cursor } => {
            let before = cursor
                .map(|c| present::parse_event_cursor(&c).ok_or_else(|| Failure::config("--cursor is none of ours")));
            let changes = store.history(&entity, &key, before.transpose()?, limit + 1).await?;
            let more = changes.len() > limit as usize;
            let shown = &changes[..changes.len().min(limit as usize)];
            let next = shown.last().filter(|_| more).map(|last| present::event_cursor(last.event));
            if as_json {
                output::json(&present::page(shown.iter().map(present::history).collect(), next))?;
                return Ok(Ended::Done);
            }
            let rows = shown.iter().map(|h| {
                let event_type = events::printable(h.event_type.as_deref().unwrap_or("-"));
                let version = events::printable(&h.version);
                vec![h.at.to_rfc3339(), h.verdict.to_string(), version, event_type, h.event.to_string()]
            });
            let rows: Vec<_> = rows.collect();
            output::line(&output::table(&["at", "verdict", "version", "type", "event"], &rows))?;
            events::more(next);
        }
    }
    Ok(Ended::Done)
}

async fn list(store: &dyn Store, filter: EntityFilter, as_json: bool) -> Result<(), Failure> {
    let limit = filter.limit as usize;
    let mut items = store.entities(&EntityFilter { limit: filter.limit + 1, ..filter }).await?;
    let more = items.len() > limit;
    items.truncate(limit);
    let next = items.last().filter(|_| more).map(|last| present::entity_cursor(last.entity.as_str(), &last.key));
    if as_json {
        return Ok(output::json(&present::page(items.iter().map(present::entity).collect(), next))?);
    }
    let rows: Vec<_> = items.iter().map(row).collect();
    output::line(&output::table(&["entity", "key", "version", "state"], &rows))?;
    events::more(next);
    Ok(())
}

fn row(record: &EntityRecord) -> Vec<String> {
    let state = record.state.as_deref().unwrap_or("(deleted)");
    let state: String = state.chars().take(100).collect();
    vec![
        record.entity.to_string(),
        events::printable(&record.key),
        events::printable(&record.version),
        events::printable(&state),
    ]
}
