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

#[cfg(test)]
mod tests {
    use crate::testing::Harness;
    use oncefold_core::Reason;
    use oncefold_core::store::StoreError;
    use oncefold_testkit::fakes::Fault;
    use serde_json::json;

    #[tokio::test]
    async fn a_dead_letter_is_given_up_with_a_reason() {
        let harness = Harness::start();
        let id = harness.dead("shop", "d", Reason::MissingKey).await;
        let path = format!("/api/v1/dead-letters/{id}/discard");
        let reply = harness.post(&path, r#"{"reason":"a test order, see ticket 7"}"#).await;
        assert_eq!((reply.status.as_u16(), &reply.json()["status"]), (200, &json!("discarded")));
        assert_eq!(harness.store.audit(), [format!("otto discards {id}: a test order, see ticket 7")]);
        let problem = harness.post(&path, r#"{"reason":"again"}"#).await.problem(409, "wrong-status");
        assert_eq!(problem["event_status"], "discarded");
        // A person may still change their mind.
        assert_eq!(harness.post(&format!("/api/v1/events/{id}/replay"), "").await.status, 202);
    }

    #[tokio::test]
    async fn only_the_dead_are_given_up() {
        let harness = Harness::start();
        for id in [harness.applied("a", 0, vec![]).await, harness.retrying("r").await] {
            let path = format!("/api/v1/dead-letters/{id}/discard");
            harness.post(&path, r#"{"reason":"x"}"#).await.problem(409, "wrong-status");
        }
        let path = "/api/v1/dead-letters/019b7d2f-0000-7000-8000-000000000000/discard";
        harness.post(path, r#"{"reason":"x"}"#).await.problem(404, "not-found");
    }

    #[tokio::test]
    async fn a_reason_is_asked_for() {
        let harness = Harness::start();
        let id = harness.dead("shop", "d", Reason::MissingKey).await;
        let path = format!("/api/v1/dead-letters/{id}/discard");
        for body in
            ["", "{}", "reason", "[]", r#"{"reason":null}"#, r#"{"reason":7}"#, r#"{"reason":"x","dry_run":true}"#]
        {
            harness.post(&path, body).await.problem(400, "bad-body");
        }
        let long = format!("{}é", "x".repeat(499));
        for reason in ["", " \n\t ", "a\0b", "\u{1b}[2J", &long] {
            let problem =
                harness.post(&path, &json!({"reason": reason}).to_string()).await.problem(400, "bad-parameter");
            assert_eq!(problem["parameter"], "reason");
        }
        assert_eq!(harness.store.calls("discard"), 0);
        let longest = json!({"reason": format!("{}é", "x".repeat(498))}).to_string();
        assert_eq!(harness.post(&path, &longest).await.status, 200);
    }

    #[tokio::test]
    async fn it_is_told_as_done_though_the_event_cannot_be_read_again() {
        let harness = Harness::start();
        let id = harness.dead("shop", "d", Reason::BadKey).await;
        harness.store.with_faults(|faults| {
            let mut discarded = false;
            faults.hook = Some(Box::new(move |call| {
                discarded |= call == "discard";
                let reading = discarded && call == "event";
                reading.then(|| Fault::Before(StoreError::Unavailable("gone".to_owned())))
            }));
        });
        let reply = harness.post(&format!("/api/v1/dead-letters/{id}/discard"), r#"{"reason":"x"}"#).await;
        assert_eq!((reply.status.as_u16(), &reply.json()["status"]), (200, &json!("discarded")));
    }
}
