//! Opening the store for verbs that look at or change events; and what such verbs share.

use crate::backends::Database;
use crate::failure::Failure;
use crate::settings;
use oncefold_config::StoreUrl;
use oncefold_core::store::{Actor, Refusal, Store};
use oncefold_core::{EventUuid, Timestamp};
use std::path::Path;
use std::sync::Arc;

/// The store of the config, which must be there with this binary's schema. It may be in use by a running `serve`.
pub async fn open(config: Option<&Path>) -> Result<Arc<dyn Store>, Failure> {
    let config = settings::load(config)?.config;
    if let StoreUrl::Sqlite(path) = &config.store
        && !path.exists()
    {
        let path = path.display();
        return Err(Failure::config(format!(
            "there is no database file {path}: start `oncefold serve`, or set store.url (or ONCEFOLD_STORE_URL)"
        )));
    }
    let database = Database::open(&config).await?;
    let pending = database.pending_migrations().await?;
    if !pending.is_empty() {
        return Err(Failure::config(pending.join("; ")));
    }
    Ok(database.store())
}

/// Who acts on the command line.
pub fn actor() -> Actor {
    let user = ["USER", "LOGNAME"].into_iter().find_map(settings::env).filter(|user| !user.is_empty());
    Actor(format!("cli:{}", user.unwrap_or_else(|| "unknown".to_owned())))
}

/// An event's id from the command line.
pub fn event_id(text: &str) -> Result<EventUuid, Failure> {
    EventUuid::parse(text)
        .ok_or_else(|| Failure::config(format!("`{text}` is not an event id (a UUID, as `events list` shows)")))
}

/// A moment from the command line.
pub fn moment(name: &str, text: Option<&String>) -> Result<Option<Timestamp>, Failure> {
    let Some(text) = text else { return Ok(None) };
    let moment = Timestamp::parse(text);
    moment.map(Some).ok_or_else(|| Failure::config(format!("--{name} `{text}` is neither RFC 3339 nor Unix seconds")))
}

/// Why an action on an event was not taken, for a person.
pub fn refused(id: &str, action: &str, refusal: Refusal) -> String {
    match refusal {
        Refusal::NotFound => format!("{id}: there is no such event"),
        Refusal::WrongStatus(status) => format!("{id}: an event that is {status} cannot be {action}"),
        Refusal::BodyGone => format!("{id}: retention dropped its body, nothing is left to be {action}"),
    }
}
