//! `dead-letters`: the parked events, straight from the store.

use super::{events, store_access};
use crate::cli::DeadLetters;
use crate::clock::SystemClock;
use crate::failure::{Ended, Failure};
use crate::output;
use oncefold_admin::present;
use oncefold_core::store::{Discard, EventFilter, Store};
use oncefold_core::{Clock as _, EventStatus};
use serde_json::Value;
use std::path::Path;

pub async fn run(verb: DeadLetters, config: Option<&Path>, as_json: bool) -> Result<Ended, Failure> {
    let store = store_access::open(config).await?;
    match verb {
        DeadLetters::List { filters, reason } => {
            let filter = EventFilter { status: Some(EventStatus::Dead), reason, ..events::event_filter(&filters)? };
            list(store.as_ref(), filter, as_json).await
        }
        DeadLetters::Groups => groups(store.as_ref(), as_json).await,
        DeadLetters::Show { id } => events::show(store.as_ref(), &id, false, as_json).await,
        DeadLetters::Replay { ids } => events::replay(store.as_ref(), &ids).await,
        DeadLetters::Discard { ids, reason } => discard(store.as_ref(), &ids, &reason).await,
    }
}

async fn list(store: &dyn Store, filter: EventFilter, as_json: bool) -> Result<Ended, Failure> {
    let (items, next) = events::page(store, filter).await?;
    if as_json {
        output::json(&present::page(items.iter().map(present::dead_letter).collect(), next))?;
        return Ok(Ended::Done);
    }
    let rows = items.iter().map(|event| {
        let (reason, message) = event.error.clone().unwrap_or_default();
        vec![
            event.id.to_string(),
            event.dead_at.map(|at| at.to_rfc3339()).unwrap_or_default(),
            event.source.to_string(),
            events::printable(event.event_type.as_deref().unwrap_or("-")),
            reason,
            events::printable(&message),
        ]
    });
    let rows: Vec<_> = rows.collect();
    output::line(&output::table(&["id", "died", "source", "type", "reason", "message"], &rows))?;
    events::more(next);
    Ok(Ended::Done)
}

async fn groups(store: &dyn Store, as_json: bool) -> Result<Ended, Failure> {
    let groups = store.dead_letter_groups().await?;
    if as_json {
        output::json(&Value::Array(groups.iter().map(present::dead_letter_group).collect()))?;
        return Ok(Ended::Done);
    }
    let rows = groups.iter().map(|g| {
        vec![
            g.count.to_string(),
            g.source.to_string(),
            events::printable(g.event_type.as_deref().unwrap_or("-")),
            g.reason.clone(),
            g.oldest.to_rfc3339(),
            g.example.to_string(),
        ]
    });
    let rows: Vec<_> = rows.collect();
    output::line(&output::table(&["count", "source", "type", "reason", "oldest", "example"], &rows))?;
    Ok(Ended::Done)
}

async fn discard(store: &dyn Store, ids: &[String], reason: &str) -> Result<Ended, Failure> {
    if reason.trim().is_empty() || reason.len() > 500 {
        return Err(Failure::config("--reason takes 1 to 500 bytes: why these events are given up"));
    }
    let mut ended = Ended::Done;
    for text in ids {
        let discard = Discard {
            id: store_access::event_id(text)?,
            actor: store_access::actor(),
            reason: reason.to_owned(),
            now: SystemClock.now(),
        };
        match store.discard(&discard).await? {
            Ok(()) => output::line(&format_args!("{text}: discarded"))?,
            Err(refusal) => {
                output::complain(&store_access::refused(text, "discarded", refusal));
                ended = Ended::Found;
            }
        }
    }
    Ok(ended)
}
