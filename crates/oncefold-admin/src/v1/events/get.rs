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

#[cfg(test)]
mod tests {
    use crate::testing::Harness;
    use bytes::Bytes;
    use oncefold_core::Reason;
    use oncefold_testkit::builders::change;
    use serde_json::json;

    /// contract.md, "Event".
    #[tokio::test]
    async fn an_event_is_shown_as_the_contract_says() {
        let harness = Harness::start();
        let id = harness.applied("evt_1", 7, vec![change("k1", 3).build()]).await;
        let mut shown = harness.get(&format!("/api/v1/events/{id}")).await.json();
        assert_eq!(shown["id"].as_str().unwrap().chars().nth(14), Some('7'), "a UUIDv7");
        assert_eq!(shown["settled_at"], "2026-01-02T03:05:05.000000Z");
        for extra in ["trace_id", "verified_by", "attempt_history", "settled_at"] {
            assert!(shown.as_object_mut().unwrap().remove(extra).is_some(), "{extra}");
        }
        let expected = json!({
            "id": id, "source": "shop", "event_id": "evt_1", "type": "order.updated", "status": "applied",
            "received_at": "2026-01-02T03:04:12.000000Z", "deliveries": 1, "attempts": 1, "next_attempt_at": null,
            "error": null, "headers": {},
            "changes": [{"entity": "order", "key": "k1", "version": "3", "verdict": "applied"}],
        });
        assert_eq!(shown, expected);
    }

    #[tokio::test]
    async fn a_failure_is_shown_with_its_attempts() {
        let harness = Harness::start();
        let id = harness.retrying("r").await;
        let shown = harness.get(&format!("/api/v1/events/{id}")).await.json();
        let error = json!({"reason": "apply.failed", "message": "the database failed"});
        assert_eq!((&shown["status"], &shown["error"]), (&json!("retrying"), &error));
        assert_eq!(shown["next_attempt_at"], "2026-01-02T04:04:05.000000Z");
        let attempt = json!({"attempt": 1, "at": "2026-01-02T03:05:05.000000Z", "status": "retrying", "error": error});
        assert_eq!(shown["attempt_history"], json!([attempt]));
    }

    #[tokio::test]
    async fn headers_that_came_twice_are_a_list() {
        let harness = Harness::start();
        let id = harness.with_body("h", Bytes::from_static(b"{}"), None).await;
        let shown = harness.get(&format!("/api/v1/events/{id}")).await.json();
        assert_eq!(shown["headers"], json!({"x-a": ["1", "2"]}));
    }

    #[tokio::test]
    async fn what_is_no_event_is_not_found() {
        let harness = Harness::start();
        harness.dead("shop", "d", Reason::BadId).await;
        for id in ["019b7d2f-0000-7000-8000-000000000000", "d", "%00", "..%2F..", "%FF", &"x".repeat(5_000)] {
            let reply = harness.get(&format!("/api/v1/events/{id}")).await;
            reply.problem(404, "not-found");
            assert!(reply.body.len() < 1_000);
            harness.get(&format!("/api/v1/events/{id}/body")).await.problem(404, "not-found");
            harness.get(&format!("/api/v1/dead-letters/{id}")).await.problem(404, "not-found");
            harness.post(&format!("/api/v1/events/{id}/replay"), "").await.problem(404, "not-found");
            harness.post(&format!("/api/v1/dead-letters/{id}/replay"), "").await.problem(404, "not-found");
        }
    }
}
