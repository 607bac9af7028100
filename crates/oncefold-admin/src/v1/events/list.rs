//! `GET /api/v1/events`.

use crate::api::SharedApi;
use crate::params::{Params, Taker, cut_page};
use crate::present;
use crate::v1::Answer;
use axum::Json;
use axum::extract::State;

/// Events, newest first.
#[utoipa::path(
    get, path = "/api/v1/events", operation_id = "list_events", tag = "events",
    params(
        ("source" = Option<String>, Query, description = "Of this source"),
        ("type" = Option<String>, Query, description = "Of exactly this type"),
        ("status" = Option<String>, Query, description = "`queued`, `retrying`, `dead`, `applied`, `ignored` or `discarded`"),
        ("entity" = Option<String>, Query, description = "That had a change of this kind of entity"),
        ("key" = Option<String>, Query, description = "That had a change of this key"),
        ("event_id" = Option<String>, Query, description = "Known by this id at their source"),
        ("since" = Option<String>, Query, description = "Received at or after: RFC 3339 or Unix seconds"),
        ("until" = Option<String>, Query, description = "Received before: RFC 3339 or Unix seconds"),
        ("limit" = Option<u32>, Query, description = "1 to 500, by default 50"),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the page before"),
    ),
    responses(
        (status = 200, description = "A page", body = crate::schema::EventPage),
        (status = 400, description = "A bad parameter", body = crate::schema::Problem, content_type = "application/problem+json"),
    )
)]
pub async fn handle(State(api): State<SharedApi>, params: Params) -> Answer {
    let mut filter = params.all_of(Taker::event_filter)?;
    let limit = filter.limit;
    filter.limit = limit.saturating_add(1);
    let mut events = api.read.events(&filter).await?;
    let next = cut_page(&mut events, limit, |event| present::event_cursor(event.id));
    Ok(Json(present::page(events.iter().map(present::event).collect(), next)))
}
