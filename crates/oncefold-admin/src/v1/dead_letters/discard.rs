//! `POST /api/v1/dead-letters/{id}/discard`.

use crate::api::SharedApi;
use crate::present;
use crate::problem::Problem;
use crate::v1::{InPath, events, refused};
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use axum::{Extension, Json};
use bytes::Bytes;
use oncefold_core::EventStatus;
use oncefold_core::store::{Actor, Discard, EventRecord};
use serde::Deserialize;

const REASON_BYTES_MAX: usize = 500;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
    reason: String,
}

/// Gives a dead letter up. Its body then falls under retention; it can still be replayed until that is gone.
#[utoipa::path(
    post, path = "/api/v1/dead-letters/{id}/discard", operation_id = "discard_dead_letter", tag = "dead letters",
    params(("id" = String, Path, description = "The event's id")),
    request_body = crate::schema::Discard,
    responses(
        (status = 200, description = "Discarded", body = crate::schema::Event),
        (status = 400, description = "No usable reason", body = crate::schema::Problem, content_type = "application/problem+json"),
        (status = 404, description = "No such event", body = crate::schema::Problem, content_type = "application/problem+json"),
        (status = 409, description = "It is not dead", body = crate::schema::Problem, content_type = "application/problem+json"),
    )
)]
pub async fn handle(
    State(api): State<SharedApi>,
    Extension(actor): Extension<Actor>,
    InPath(id): InPath<String>,
    body: Bytes,
) -> Result<Response, Problem> {
    let reason = reason(&body)?;
    let event = events::find(&api, &id).await?;
    let discard = Discard { id: event.id, actor, reason, now: api.clock.now() };
    api.act.discard(&discard).await?.map_err(|refusal| refused("discarded", event.id, refusal))?;
    tracing::info!(actor = discard.actor.0, action = "discard", event = %event.id, source = %event.source, "dead letter discarded");
    // It is done: a store that fails now must not make the caller do it again.
    let shown = match api.read.event(event.id).await {
        Ok(Some(present)) => present,
        Ok(None) | Err(_) => {
            EventRecord { status: EventStatus::Discarded, settled_at: Some(discard.now), error: None, ..event }
        }
    };
    Ok(Json(present::event(&shown)).into_response())
}

fn reason(body: &[u8]) -> Result<String, Problem> {
    let wanted: Wanted = serde_json::from_slice(body)
        .map_err(|error| Problem::bad_body(format!("send {{\"reason\": \"…\"}} as JSON: {error}")))?;
    let reason = wanted.reason;
    let unprintable = |c: char| c.is_control() && c != '\n' && c != '\t';
    if reason.trim().is_empty() || reason.len() > REASON_BYTES_MAX || reason.contains(unprintable) {
        let detail = format!("`reason` must say why, in 1 to {REASON_BYTES_MAX} bytes without control characters");
        return Err(Problem::bad_parameter("reason", detail));
    }
    Ok(reason)
}
