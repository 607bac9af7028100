//! `GET /api/v1/events/{id}`.

use crate::api::SharedApi;
use crate::present;
use crate::v1::{Answer, InPath, events};
use axum::Json;
use axum::extract::State;

/// One event, with its attempts.
#[utoipa::path(
    get, path = "/api/v1/events/{id}", operation_id = "get_event", tag = "events",
    params(("id" = String, Path, description = "Its id")),
    responses(
        (status = 200, description = "The event", body = crate::schema::Event),
        (status = 404, description = "No such event", body = crate::schema::Problem, content_type = "application/problem+json"),
    )
)]
pub async fn handle(State(api): State<SharedApi>, InPath(id): InPath<String>) -> Answer {
    let event = events::find(&api, &id).await?;
    let attempts = api.read.attempts(event.id).await?;
    Ok(Json(present::event_with_attempts(&event, &attempts)))
}
