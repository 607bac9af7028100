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

#[cfg(test)]
mod tests {
    use crate::testing::Harness;
    use oncefold_core::Reason;
    use oncefold_core::store::StoreError;
    use oncefold_testkit::fakes::Fault;
    use serde_json::json;

    #[tokio::test]
    async fn a_settled_or_dead_event_goes_back_once() {
        let harness = Harness::start();
        let (applied, dead) = (harness.applied("a", 0, vec![]).await, harness.dead("other", "d", Reason::BadKey).await);
        for id in [applied, dead] {
            let path = format!("/api/v1/events/{id}/replay");
            let reply = harness.post(&path, "").await;
            let shown = reply.json();
            assert_eq!(reply.status, 202, "{shown}");
            assert_eq!((&shown["id"], &shown["status"]), (&json!(id), &json!("queued")));
            assert_eq!((&shown["error"], &shown["settled_at"]), (&json!(null), &json!(null)));
            let problem = harness.post(&path, "").await.problem(409, "wrong-status");
            assert_eq!(problem["event_status"], "queued");
            assert!(problem["detail"].as_str().unwrap().contains("queued"));
        }
        let expected = vec![format!("otto replays {applied}"), format!("otto replays {dead}")];
        assert_eq!(harness.store.audit(), expected);
        for source in ["shop", "other"] {
            assert_eq!(harness.api.metrics.replayed.with_label_values(&[source]).get(), 1, "{source}");
        }
    }

    #[tokio::test]
    async fn a_retrying_event_is_on_its_way_already() {
        let harness = Harness::start();
        let id = harness.retrying("r").await;
        let problem = harness.post(&format!("/api/v1/events/{id}/replay"), "").await.problem(409, "wrong-status");
        assert_eq!(problem["event_status"], "retrying");
    }

    #[tokio::test]
    async fn a_body_is_refused_before_anything_is_done() {
        let harness = Harness::start();
        let id = harness.applied("a", 0, vec![]).await;
        let path = format!("/api/v1/events/{id}/replay");
        for body in [r#"{"dry_run":true}"#, "null", "x", "{} {}"] {
            harness.post(&path, body).await.problem(400, "bad-body");
        }
        assert!(harness.store.audit().is_empty());
        assert_eq!(harness.post(&path, " {}\n").await.status, 202);
    }

    /// Otherwise the caller would try again, and be told 409 for what succeeded.
    #[tokio::test]
    async fn it_is_told_as_done_though_the_event_cannot_be_read_again() {
        let harness = Harness::start();
        let id = harness.dead("shop", "d", Reason::BadKey).await;
        harness.store.with_faults(|faults| {
            let mut replayed = false;
            faults.hook = Some(Box::new(move |call| {
                replayed |= call == "replay";
                let reading = replayed && call == "event";
                reading.then(|| Fault::Before(StoreError::Unavailable("gone".to_owned())))
            }));
        });
        let reply = harness.post(&format!("/api/v1/events/{id}/replay"), "").await;
        assert_eq!(reply.status, 202);
        assert_eq!((&reply.json()["status"], &reply.json()["error"]), (&json!("queued"), &json!(null)));
    }
}
