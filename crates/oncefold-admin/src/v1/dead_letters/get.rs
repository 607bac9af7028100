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

#[cfg(test)]
mod tests {
    use crate::testing::Harness;
    use oncefold_core::Reason;
    use serde_json::json;

    #[tokio::test]
    async fn a_dead_letter_is_its_event_with_reason_and_time() {
        let harness = Harness::start();
        let id = harness.dead("shop", "d", Reason::MissingKey).await;
        let shown = harness.get(&format!("/api/v1/dead-letters/{id}")).await.json();
        assert_eq!((&shown["id"], &shown["status"]), (&json!(id), &json!("dead")));
        assert_eq!(
            (&shown["reason"], &shown["dead_at"]),
            (&json!("mapping.missing_key"), &json!("2026-01-02T03:05:05.000000Z"))
        );
        assert_eq!(shown["error"], json!({"reason": "mapping.missing_key", "message": "it cannot be mapped"}));
        assert_eq!(shown["attempt_history"].as_array().unwrap().len(), 1);
    }

    #[tokio::test]
    async fn an_event_that_lives_is_no_dead_letter() {
        let harness = Harness::start();
        let id = harness.applied("a", 0, vec![]).await;
        let problem = harness.get(&format!("/api/v1/dead-letters/{id}")).await.problem(404, "not-found");
        assert_eq!(problem["event_status"], "applied");
    }
}
