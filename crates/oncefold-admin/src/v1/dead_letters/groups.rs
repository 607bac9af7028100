//! `GET /api/v1/dead-letters/groups`.

use crate::api::SharedApi;
use crate::params::Params;
use crate::present;
use crate::v1::Answer;
use axum::Json;
use axum::extract::State;

/// Dead letters by source, type and reason, most first.
#[utoipa::path(
    get, path = "/api/v1/dead-letters/groups", operation_id = "group_dead_letters", tag = "dead letters",
    responses((status = 200, description = "All of them, on one page", body = crate::schema::DeadLetterGroupPage))
)]
pub async fn handle(State(api): State<SharedApi>, params: Params) -> Answer {
    params.all_of(|_| Ok(()))?;
    let groups = api.read.dead_letter_groups().await?;
    Ok(Json(present::page(groups.iter().map(present::dead_letter_group).collect(), None)))
}

#[cfg(test)]
mod tests {
    use crate::testing::Harness;
    use oncefold_core::Reason;
    use serde_json::json;

    #[tokio::test]
    async fn dead_letters_that_died_alike_are_one_group() {
        let harness = Harness::start();
        harness.dead("shop", "one", Reason::MissingKey).await;
        let newest = harness.dead("shop", "two", Reason::MissingKey).await;
        let other = harness.dead("shop", "three", Reason::BadVersion).await;
        harness.applied("fine", 0, vec![]).await;
        let at = "2026-01-02T03:04:05.000000Z";
        let group = |reason: &str, count, example| {
            json!({"source": "shop", "type": "order.updated", "reason": reason, "count": count, "oldest": at,
                "newest": at, "example": example})
        };
        let items = json!([group("mapping.missing_key", 2, newest), group("mapping.bad_version", 1, other)]);
        assert_eq!(
            harness.get("/api/v1/dead-letters/groups").await.json(),
            json!({"items": items, "next_cursor": null})
        );
    }
}
