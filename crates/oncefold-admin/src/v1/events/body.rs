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

#[cfg(test)]
mod tests {
    use crate::testing::Harness;
    use bytes::Bytes;

    #[tokio::test]
    async fn the_bytes_are_exact_whatever_they_are() {
        let harness = Harness::start();
        let every_byte: Vec<u8> = (0..=255).collect();
        for (number, bytes) in [b"{ \"a\" : 1.0e2 }\r\n".to_vec(), vec![], every_byte].into_iter().enumerate() {
            let id = harness.with_body(&number.to_string(), bytes.clone().into(), None).await;
            let reply = harness.get(&format!("/api/v1/events/{id}/body")).await;
            assert_eq!((reply.status.as_u16(), reply.body), (200, Bytes::from(bytes)));
        }
    }

    /// A stranger's HTML or SVG must not run where somebody is logged in.
    #[tokio::test]
    async fn no_type_that_runs_is_passed_on() {
        let harness = Harness::start();
        for (stored, expected) in [
            (Some("application/json; charset=utf-8"), "application/json"),
            (Some("Text/Plain"), "text/plain"),
            (Some("application/x-www-form-urlencoded"), "application/x-www-form-urlencoded"),
            (Some("text/html"), "application/octet-stream"),
            (Some("image/svg+xml"), "application/octet-stream"),
            (Some("application/json\r\nx: y"), "application/octet-stream"),
            (Some("text/html, application/json"), "application/octet-stream"),
            (Some(""), "application/octet-stream"),
            (None, "application/octet-stream"),
        ] {
            let body = Bytes::from_static(b"<script>alert(1)</script>");
            let id = harness.with_body(&format!("{stored:?}"), body.clone(), stored).await;
            let reply = harness.get(&format!("/api/v1/events/{id}/body")).await;
            assert_eq!(reply.body, body);
            assert_eq!(reply.headers.get_all("content-type").iter().count(), 1);
            assert_eq!(reply.header("content-type"), expected, "{stored:?}");
            assert_eq!(reply.header("x-content-type-options"), "nosniff");
            assert_eq!(reply.header("content-disposition"), format!("attachment; filename=\"{id}\""));
            assert!(reply.header("content-security-policy").contains("sandbox"));
        }
    }

    #[tokio::test]
    async fn a_body_that_retention_dropped_is_gone() {
        let harness = Harness::start();
        let id = harness.applied("a", 0, vec![]).await;
        harness.drop_bodies().await;
        harness.get(&format!("/api/v1/events/{id}/body")).await.problem(410, "body-gone");
        harness.post(&format!("/api/v1/events/{id}/replay"), "").await.problem(410, "body-gone");
    }
}
