//! `GET /api/v1/dead-letters`.

use crate::api::SharedApi;
use crate::params::{Params, Taker, cut_page};
use crate::present;
use crate::v1::Answer;
use axum::Json;
use axum::extract::State;

/// Dead letters, newest event first.
#[utoipa::path(
    get, path = "/api/v1/dead-letters", operation_id = "list_dead_letters", tag = "dead letters",
    params(
        ("source" = Option<String>, Query, description = "Of this source"),
        ("type" = Option<String>, Query, description = "Of exactly this type"),
        ("reason" = Option<String>, Query, description = "Dead for this reason"),
        ("since" = Option<String>, Query, description = "Received at or after: RFC 3339 or Unix seconds"),
        ("until" = Option<String>, Query, description = "Received before: RFC 3339 or Unix seconds"),
        ("limit" = Option<u32>, Query, description = "1 to 500, by default 50"),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the page before"),
    ),
    responses(
        (status = 200, description = "A page", body = crate::schema::DeadLetterPage),
        (status = 400, description = "A bad parameter", body = crate::schema::Problem, content_type = "application/problem+json"),
    )
)]
pub async fn handle(State(api): State<SharedApi>, params: Params) -> Answer {
    let mut filter = params.all_of(Taker::dead_letter_filter)?;
    let limit = filter.limit;
    filter.limit = limit.saturating_add(1);
    let mut letters = api.read.events(&filter).await?;
    let next = cut_page(&mut letters, limit, |letter| present::event_cursor(letter.id));
    Ok(Json(present::page(letters.iter().map(present::dead_letter).collect(), next)))
}

#[cfg(test)]
mod tests {
    use crate::testing::Harness;
    use oncefold_core::Reason;
    use serde_json::json;

    #[tokio::test]
    async fn only_the_dead_are_listed_newest_first() {
        let harness = Harness::start();
        harness.dead("shop", "one", Reason::MissingKey).await;
        harness.applied("fine", 0, vec![]).await;
        harness.dead("other", "two", Reason::BadVersion).await;
        harness.retrying("soon").await;
        harness.dead("shop", "three", Reason::BadVersion).await;
        for (query, expected) in [
            ("", vec!["three", "two", "one"]),
            ("?source=shop", vec!["three", "one"]),
            ("?reason=mapping.bad_version", vec!["three", "two"]),
            ("?reason=apply.failed", vec![]),
            ("?type=order.updated&source=other", vec!["two"]),
            ("?since=1767323046", vec![]),
            ("?until=1767323045", vec![]),
        ] {
            assert_eq!(
                harness.get(&format!("/api/v1/dead-letters{query}")).await.each("event_id"),
                expected,
                "{query}"
            );
        }
        let first = harness.get("/api/v1/dead-letters?limit=2").await;
        assert_eq!(first.each("reason"), ["mapping.bad_version"; 2]);
        assert_eq!(first.each("dead_at"), ["2026-01-02T03:05:05.000000Z"; 2]);
        let next = first.json()["next_cursor"].as_str().unwrap().to_owned();
        let second = harness.get(&format!("/api/v1/dead-letters?limit=2&cursor={next}")).await;
        assert_eq!((second.each("event_id"), &second.json()["next_cursor"]), (vec!["one".to_owned()], &json!(null)));
    }

    #[tokio::test]
    async fn reasons_are_a_closed_set() {
        let harness = Harness::start();
        for bad in ["mapping.nonsense", "", "MAPPING.BAD_KEY"] {
            let problem =
                harness.get(&format!("/api/v1/dead-letters?reason={bad}")).await.problem(400, "bad-parameter");
            assert_eq!(problem["parameter"], "reason");
        }
        // A dead letter has one status.
        let problem = harness.get("/api/v1/dead-letters?status=dead").await.problem(400, "bad-parameter");
        assert_eq!(problem["parameter"], "status");
    }
}
