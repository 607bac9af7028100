//! `[store]`: where events and entities are kept.

use crate::reader::{Place, Schema, Table};
use crate::reference::resolve;
use crate::url::{StoreUrl, parse_store};
use std::path::PathBuf;

pub(crate) const SCHEMA: Schema = Schema { title: "[store]", keys: &["url"], later: &[] };

const VARIABLE: &str = "ONCEFOLD_STORE_URL";
const DEFAULT_FILE: &str = "oncefold.db";

/// The store, and where it is said; nothing where that cannot be used.
pub(crate) fn read(root: &Table<'_>) -> Option<(StoreUrl, Place)> {
    let section = root.section("store", &SCHEMA);
    let known = section.context.problem_count();
    let Some(setting) = section.setting("url", VARIABLE) else {
        let unset = section.context.problem_count() == known;
        return unset.then(|| (StoreUrl::Sqlite(PathBuf::from(DEFAULT_FILE)), section.place));
    };
    let resolved = resolve(section.context, &setting.place, &setting.text)?;
    match parse_store(&resolved.text) {
        Ok(url) => Some((url, setting.place)),
        Err((message, mend)) => {
            section.context.problem(&setting.place, message, mend);
            None
        }
    }
}
