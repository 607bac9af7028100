//! `GET /api/v1/entities/{entity}/{key}/history`.

use super::get::find;
use crate::api::{Api, SharedApi};
use crate::params::Params;
use crate::present;
use crate::problem::Problem;
use crate::v1::{Answer, InPath};
use axum::Json;
use axum::extract::State;
use oncefold_core::EventUuid;
use oncefold_core::store::{EntityRecord, HistoryRecord};

/// What changed an entity, or tried to: newest event first.
#[utoipa::path(
    get, path = "/api/v1/entities/{entity}/{key}/history", operation_id = "get_entity_history", tag = "entities",
    params(
        ("entity" = String, Path, description = "Its kind"),
        ("key" = String, Path, description = "Its key, percent-encoded"),
        ("limit" = Option<u32>, Query, description = "1 to 500, by default 50"),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the page before"),
    ),
    responses(
        (status = 200, description = "A page", body = crate::schema::HistoryPage),
        (status = 400, description = "A bad parameter", body = crate::schema::Problem, content_type = "application/problem+json"),
        (status = 404, description = "No such entity", body = crate::schema::Problem, content_type = "application/problem+json"),
    )
)]
pub async fn handle(
    State(api): State<SharedApi>,
    InPath((entity, key)): InPath<(String, String)>,
    params: Params,
) -> Answer {
    let (limit, before) = params.all_of(|params| Ok((params.limit()?, params.cursor(present::parse_event_cursor)?)))?;
    let entity = find(&api, &entity, &key).await?;
    let (changes, next) = page(&api, &entity, before, limit).await?;
    Ok(Json(present::page(changes.iter().map(present::history).collect(), next)))
}

/// A cursor is an event, so the changes of one event are never parted: a page ends before the event that would not
/// fit, and grows where one event alone has more changes than fit.
async fn page(
    api: &Api,
    entity: &EntityRecord,
    before: Option<EventUuid>,
    limit: u32,
) -> Result<(Vec<HistoryRecord>, Option<String>), Problem> {
    let mut asked = limit;
    loop {
        asked = asked.saturating_mul(2).saturating_add(1);
        let mut changes = api.read.history(entity.entity.as_str(), &entity.key, before, asked).await?;
        let exhausted = changes.len() < usize::try_from(asked).unwrap_or(usize::MAX);
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        match page_end(&changes, limit) {
            Some(end) => {
                changes.truncate(end);
                let next = changes.last().map(|last| present::event_cursor(last.event));
                return Ok((changes, next));
            }
            None if exhausted => return Ok((changes, None)),
            None => {}
        }
    }
}

/// Where the page ends, if changes of another event follow it.
fn page_end(changes: &[HistoryRecord], limit: usize) -> Option<usize> {
    let starts = || (1..changes.len()).filter(|&i| changes[i].event != changes[i - 1].event);
    if changes.len() <= limit {
        return None;
    }
    starts().take_while(|&i| i <= limit).last().or_else(|| starts().next())
}
