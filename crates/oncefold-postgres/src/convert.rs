//! Between the database's integers and texts and the core's types.

use oncefold_core::change::Verdict;
use oncefold_core::event::EventStatus;
use oncefold_core::id::{Digest, EntityKind, EventUuid, SourceName};
use oncefold_core::store::StoreError;
use oncefold_core::time::Timestamp;
use uuid::Uuid;

fn not_ours(what: &str) -> StoreError {
    StoreError::Failed(format!("a stored {what} is none of ours; was the table changed by hand?"))
}

pub(crate) fn status(text: &str) -> Result<EventStatus, StoreError> {
    EventStatus::parse(text).ok_or_else(|| not_ours("status"))
}

pub(crate) fn verdict(text: &str) -> Result<Verdict, StoreError> {
    Verdict::parse(text).ok_or_else(|| not_ours("verdict"))
}

pub(crate) fn source(text: &str) -> Result<SourceName, StoreError> {
    SourceName::parse(text).map_err(|_| not_ours("source name"))
}

pub(crate) fn entity_kind(text: &str) -> Result<EntityKind, StoreError> {
    EntityKind::parse(text).map_err(|_| not_ours("entity kind"))
}

pub(crate) fn digest(bytes: &[u8]) -> Result<Digest, StoreError> {
    Digest::try_from(bytes).map_err(|_| not_ours("digest"))
}

pub(crate) fn moment(micros: Option<i64>) -> Option<Timestamp> {
    micros.map(Timestamp::from_micros)
}

pub(crate) fn micros(moment: Option<Timestamp>) -> Option<i64> {
    moment.map(Timestamp::as_micros)
}

/// A count that a check constraint keeps from being negative.
pub(crate) fn count(stored: i64) -> u64 {
    u64::try_from(stored).unwrap_or_default()
}

/// A small number that a check constraint keeps from being negative.
pub(crate) fn small(stored: i32) -> u32 {
    u32::try_from(stored).unwrap_or_default()
}

/// A small number as the database takes it; one too large becomes the largest.
pub(crate) fn integer(number: u32) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

pub(crate) fn uuids<'a>(ids: impl IntoIterator<Item = &'a EventUuid>) -> Vec<Uuid> {
    ids.into_iter().map(|id| id.as_uuid()).collect()
}
