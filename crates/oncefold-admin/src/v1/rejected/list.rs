//! `GET /api/v1/rejected`.

use crate::api::SharedApi;
use crate::params::{Params, cut_page};
use crate::present;
use crate::problem::Problem;
use crate::v1::Answer;
use axum::Json;
use axum::extract::State;

/// Deliveries that did not verify, newest first, each with what explains it. At most 1,000 of a source are kept, and none
/// while the database is away.
#[utoipa::path(
    get, path = "/api/v1/rejected", operation_id = "list_rejected", tag = "rejected",
    params(
        ("source" = Option<String>, Query, description = "Of this source"),
        ("limit" = Option<u32>, Query, description = "1 to 500, by default 50"),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the page before"),
    ),
    responses(
        (status = 200, description = "A page", body = crate::schema::RejectedPage),
        (status = 400, description = "A bad parameter", body = crate::schema::Problem, content_type = "application/problem+json"),
    )
)]
pub async fn handle(State(api): State<SharedApi>, params: Params) -> Answer {
    let (source, limit, before) =
        params.all_of(|taker| Ok((taker.source()?, taker.limit()?, taker.cursor(present::parse_rejected_cursor)?)))?;
    let mut found = api.rejected.rejected(source.as_deref(), before, limit.saturating_add(1)).await?;
    let next = cut_page(&mut found, limit, |record| present::rejected_cursor(record.sequence));
    let diagnose = api.diagnose.clone();
    // Many hashes of each body: no work for the threads that answer.
    let shown = tokio::task::spawn_blocking(move || {
        let explain = |record| diagnose.as_ref().map(|d| d.diagnose(record)).unwrap_or_default();
        let shown = found.iter().map(|record| present::rejected(record, &explain(&record.delivery)));
        shown.collect::<Vec<_>>()
    });
    let shown = shown.await.map_err(|_| Problem::internal())?;
    Ok(Json(present::page(shown, next)))
}

#[cfg(test)]
mod tests {
    use crate::testing::Harness;
    use oncefold_core::store::{RejectedDelivery, RejectedRequest, RejectedStore as _};
    use oncefold_testkit::builders::{at, source};
    use serde_json::json;

    fn delivery(name: &str, number: u64) -> RejectedDelivery {
        RejectedDelivery {
            source: source(name),
            at: at(number),
            reason: "missing_header".to_owned(),
            detail: format!("{number}"),
            request: RejectedRequest {
                method: "PUT".to_owned(),
                headers: vec![("x-a".to_owned(), "1".to_owned())],
                body_bytes: 7,
                ..RejectedRequest::default()
            },
            body: None,
        }
    }

    #[tokio::test]
    async fn rejected_deliveries_are_shown_with_what_explains_them() {
        let harness = Harness::start();
        harness.store.record_rejected(&[delivery("shop", 0)]).await.unwrap();
        let expected = json!({"items": [{
            "source": "shop", "at": "2026-01-02T03:04:05.000000Z", "reason": "missing_header", "detail": "0",
            "diagnosis": ["it was a PUT"], "method": "PUT", "query": "", "headers": {"x-a": "1"}, "body_bytes": 7,
            "trace_id": "",
        }], "next_cursor": null});
        assert_eq!(harness.get("/api/v1/rejected").await.json(), expected);
    }

    #[tokio::test]
    async fn pages_join_to_the_whole_newest_first() {
        let harness = Harness::start();
        for number in 0..5 {
            harness.store.record_rejected(&[delivery("shop", number), delivery("bank", number)]).await.unwrap();
        }
        let (mut joined, mut cursor) = (vec![], String::new());
        loop {
            let reply = harness.get(&format!("/api/v1/rejected?source=shop&limit=2{cursor}")).await;
            joined.extend(reply.each("detail"));
            match reply.json()["next_cursor"].as_str() {
                None => break,
                Some(next) => cursor = format!("&cursor={next}"),
            }
        }
        assert_eq!(joined, ["4", "3", "2", "1", "0"]);
        for bad in ["source=Shop", "limit=0", "cursor=1", "cursor=%2B00000000000001", "since=1"] {
            harness.get(&format!("/api/v1/rejected?{bad}")).await.problem(400, "bad-parameter");
        }
    }
}
