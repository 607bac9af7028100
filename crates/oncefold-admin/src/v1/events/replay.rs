//! `POST /api/v1/events/{id}/replay`.

use crate::api::{Api, SharedApi};
use crate::present;
use crate::problem::Problem;
use crate::v1::{InPath, events, refused};
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use axum::{Extension, Json};
use bytes::Bytes;
use http::StatusCode;
use oncefold_core::EventStatus;
use oncefold_core::store::{Actor, EventRecord, Replay};

/// Puts an event back on the queue. It goes through the same guard as before.
#[utoipa::path(
    post, path = "/api/v1/events/{id}/replay", operation_id = "replay_event", tag = "events",
    params(("id" = String, Path, description = "The event's id")),
    responses(
        (status = 202, description = "Queued", body = crate::schema::Event),
        (status = 400, description = "It takes no body", body = crate::schema::Problem, content_type = "application/problem+json"),
        (status = 404, description = "No such event", body = crate::schema::Problem, content_type = "application/problem+json"),
        (status = 409, description = "It is on its way already", body = crate::schema::Problem, content_type = "application/problem+json"),
        (status = 410, description = "Retention dropped its body", body = crate::schema::Problem, content_type = "application/problem+json"),
    )
)]
pub async fn handle(
    State(api): State<SharedApi>,
    Extension(actor): Extension<Actor>,
    InPath(id): InPath<String>,
    body: Bytes,
) -> Result<Response, Problem> {
    takes_no_body(&body)?;
    let event = events::find(&api, &id).await?;
    put_back(&api, actor, event).await
}

/// A body would be a wish that is not granted, so it is refused; `{}` is what many clients send for none.
///
/// # Errors
/// 400.
pub fn takes_no_body(body: &[u8]) -> Result<(), Problem> {
    match body.trim_ascii() {
        b"" | b"{}" => Ok(()),
        _ => Err(Problem::bad_body("a replay takes no body")),
    }
}

/// Replays an event that was found, and shows it as it is then.
///
/// # Errors
/// 409 or 410 where the store refuses.
pub async fn put_back(api: &Api, actor: Actor, event: EventRecord) -> Result<Response, Problem> {
    let replay = Replay { id: event.id, actor, now: api.clock.now() };
    api.act.replay(&replay).await?.map_err(|refusal| refused("replayed", event.id, refusal))?;
    tracing::info!(actor = replay.actor.0, action = "replay", event = %event.id, source = %event.source, "event replayed");
    api.metrics.replayed.with_label_values(&[event.source.as_str()]).inc();
    // It is done: a store that fails now must not make the caller do it again.
    let shown = match api.read.event(event.id).await {
        Ok(Some(present)) => present,
        Ok(None) | Err(_) => EventRecord { status: EventStatus::Queued, settled_at: None, error: None, ..event },
    };
    Ok((StatusCode::ACCEPTED, Json(present::event(&shown))).into_response())
}
