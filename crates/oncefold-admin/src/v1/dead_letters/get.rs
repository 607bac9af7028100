//! `GET /api/v1/dead-letters/{id}`.

use crate::api::SharedApi;
use crate::present;
use crate::problem::Problem;
use crate::v1::{Answer, InPath, events};
use axum::Json;
use axum::extract::State;
use oncefold_core::EventStatus;

/// One dead letter, with its attempts.
#[utoipa::path(
    get, path = "/api/v1/dead-letters/{id}", operation_id = "get_dead_letter", tag = "dead letters",
    params(("id" = String, Path, description = "The event's id")),
    responses(
        (status = 200, description = "The dead letter", body = crate::schema::DeadLetter),
        (status = 404, description = "No such event, or it is not dead", body = crate::schema::Problem, content_type = "application/problem+json"),
    )
)]
pub async fn handle(State(api): State<SharedApi>, InPath(id): InPath<String>) -> Answer {
    let event = events::find(&api, &id).await?;
    if event.status != EventStatus::Dead {
        let detail = format!("event `{}` is {}, not dead: see /api/v1/events/{}", event.id, event.status, event.id);
        return Err(Problem::not_found(detail).with("event_status", event.status.as_str()));
    }
    let attempts = api.read.attempts(event.id).await?;
    Ok(Json(present::event_with_attempts(&event, &attempts)))
}
