//! `GET /api/v1/events/{id}/body`.

use crate::api::SharedApi;
use crate::problem::Problem;
use crate::v1::{InPath, events};
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use http::{StatusCode, header};

const UNKNOWN: &str = "application/octet-stream";
/// Types that a browser shows as text at most. The body is a stranger's: anything else goes out as [`UNKNOWN`].
const HARMLESS: [&str; 3] = ["application/json", "application/x-www-form-urlencoded", "text/plain"];

/// The exact bytes of an event, as its provider sent them.
#[utoipa::path(
    get, path = "/api/v1/events/{id}/body", operation_id = "get_event_body", tag = "events",
    params(("id" = String, Path, description = "The event's id")),
    responses(
        (status = 200, description = "The bytes", body = Vec<u8>, content_type = "application/octet-stream"),
        (status = 404, description = "No such event", body = crate::schema::Problem, content_type = "application/problem+json"),
        (status = 410, description = "Retention dropped the body", body = crate::schema::Problem, content_type = "application/problem+json"),
    )
)]
pub async fn handle(State(api): State<SharedApi>, InPath(id): InPath<String>) -> Result<Response, Problem> {
    let event = events::find(&api, &id).await?;
    let Some(stored) = api.read.body(event.id).await? else {
        return Err(Problem::of(StatusCode::GONE, "body-gone", "retention dropped this event's body"));
    };
    let disposition = format!("attachment; filename=\"{}\"", event.id);
    let headers = [
        (header::CONTENT_TYPE, safe_type(stored.content_type.as_deref())),
        (header::CONTENT_DISPOSITION, disposition.as_str()),
        (header::CONTENT_SECURITY_POLICY, "sandbox; default-src 'none'"),
    ];
    Ok((headers, stored.body).into_response())
}

/// The stored type without its parameters, if it is harmless.
fn safe_type(stored: Option<&str>) -> &'static str {
    let essence = stored.and_then(|text| text.split(';').next()).unwrap_or_default().trim();
    HARMLESS.into_iter().find(|harmless| harmless.eq_ignore_ascii_case(essence)).unwrap_or(UNKNOWN)
}
