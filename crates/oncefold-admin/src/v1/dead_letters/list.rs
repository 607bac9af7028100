//! `GET /api/v1/dead-letters`.

use crate::api::SharedApi;
use crate::params::{Params, Taker, cut_page};
use crate::present;
use crate::v1::Answer;
use axum::Json;
use axum::extract::State;

/// Dead letters, newest event first.
#[utoipa::path(
    get, path = "/api/v1/dead-letters", operation_id = "list_dead_letters", tag = "dead letters",
    params(
        ("source" = Option<String>, Query, description = "Of this source"),
        ("type" = Option<String>, Query, description = "Of exactly this type"),
        ("reason" = Option<String>, Query, description = "Dead for this reason"),
        ("since" = Option<String>, Query, description = "Received at or after: RFC 3339 or Unix seconds"),
        ("until" = Option<String>, Query, description = "Received before: RFC 3339 or Unix seconds"),
        ("limit" = Option<u32>, Query, description = "1 to 500, by default 50"),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the page before"),
    ),
    responses(
        (status = 200, description = "A page", body = crate::schema::DeadLetterPage),
        (status = 400, description = "A bad parameter", body = crate::schema::Problem, content_type = "application/problem+json"),
    )
)]
pub async fn handle(State(api): State<SharedApi>, params: Params) -> Answer {
    let mut filter = params.all_of(Taker::dead_letter_filter)?;
    let limit = filter.limit;
    filter.limit = limit.saturating_add(1);
    let mut letters = api.read.events(&filter).await?;
    let next = cut_page(&mut letters, limit, |letter| present::event_cursor(letter.id));
    Ok(Json(present::page(letters.iter().map(present::dead_letter).collect(), next)))
}
