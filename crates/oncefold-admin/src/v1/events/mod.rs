//! The event log.

pub mod body;
pub mod get;
pub mod list;
pub mod replay;

use crate::api::Api;
use crate::problem::{Problem, excerpt};
use oncefold_core::EventUuid;
use oncefold_core::store::EventRecord;

/// The event a path names. What is no UUID is the id of no event.
///
/// # Errors
/// 404 where there is none.
pub async fn find(api: &Api, id: &str) -> Result<EventRecord, Problem> {
    let found = match EventUuid::parse(id) {
        Some(id) => api.read.event(id).await?,
        None => None,
    };
    found.ok_or_else(|| Problem::not_found(format!("there is no event `{}`", excerpt(id))))
}
