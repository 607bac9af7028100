//! `POST /api/v1/dead-letters/{id}/replay`.

use crate::api::SharedApi;
use crate::problem::Problem;
use crate::v1::events::replay::{put_back, takes_no_body};
use crate::v1::{InPath, events, refused};
use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use bytes::Bytes;
use oncefold_core::EventStatus;
use oncefold_core::store::{Actor, Refusal};

/// Puts a dead letter back on the queue.
#[utoipa::path(
    post, path = "/api/v1/dead-letters/{id}/replay", operation_id = "replay_dead_letter", tag = "dead letters",
    params(("id" = String, Path, description = "The event's id")),
    responses(
        (status = 202, description = "Queued", body = crate::schema::Event),
        (status = 400, description = "It takes no body", body = crate::schema::Problem, content_type = "application/problem+json"),
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
    takes_no_body(&body)?;
    let event = events::find(&api, &id).await?;
    if event.status != EventStatus::Dead {
        return Err(refused("replayed as a dead letter", event.id, Refusal::WrongStatus(event.status)));
    }
    put_back(&api, actor, event).await
}

#[cfg(test)]
mod tests {
    use crate::testing::Harness;
    use oncefold_core::Reason;
    use serde_json::json;

    #[tokio::test]
    async fn a_dead_letter_goes_back() {
        let harness = Harness::start();
        let id = harness.dead("shop", "d", Reason::MissingKey).await;
        let path = format!("/api/v1/dead-letters/{id}/replay");
        harness.post(&path, r#"{"rate_per_second":1}"#).await.problem(400, "bad-body");
        let reply = harness.post(&path, "").await;
        assert_eq!((reply.status.as_u16(), &reply.json()["status"]), (202, &json!("queued")));
        assert_eq!(harness.store.audit(), [format!("otto replays {id}")]);
        assert_eq!(harness.api.metrics.replayed.with_label_values(&["shop"]).get(), 1);
        let problem = harness.post(&path, "").await.problem(409, "wrong-status");
        assert_eq!(problem["event_status"], "queued");
    }

    /// Who replays dead letters does not mean to replay what was applied meanwhile.
    #[tokio::test]
    async fn what_is_not_dead_stays_where_it_is() {
        let harness = Harness::start();
        let id = harness.applied("a", 0, vec![]).await;
        let problem = harness.post(&format!("/api/v1/dead-letters/{id}/replay"), "").await.problem(409, "wrong-status");
        assert_eq!(problem["event_status"], "applied");
        assert!(harness.store.audit().is_empty());
    }
}
