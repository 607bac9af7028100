//! `GET /api/v1/events`.

use crate::api::SharedApi;
use crate::params::{Params, Taker, cut_page};
use crate::present;
use crate::v1::Answer;
use axum::Json;
use axum::extract::State;

/// Events, newest first.
#[utoipa::path(
    get, path = "/api/v1/events", operation_id = "list_events", tag = "events",
    params(
        ("source" = Option<String>, Query, description = "Of this source"),
        ("type" = Option<String>, Query, description = "Of exactly this type"),
        ("status" = Option<String>, Query, description = "`queued`, `retrying`, `dead`, `applied`, `ignored` or `discarded`"),
        ("entity" = Option<String>, Query, description = "That had a change of this kind of entity"),
        ("key" = Option<String>, Query, description = "That had a change of this key"),
        ("event_id" = Option<String>, Query, description = "Known by this id at their source"),
        ("since" = Option<String>, Query, description = "Received at or after: RFC 3339 or Unix seconds"),
        ("until" = Option<String>, Query, description = "Received before: RFC 3339 or Unix seconds"),
        ("limit" = Option<u32>, Query, description = "1 to 500, by default 50"),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the page before"),
    ),
    responses(
        (status = 200, description = "A page", body = crate::schema::EventPage),
        (status = 400, description = "A bad parameter", body = crate::schema::Problem, content_type = "application/problem+json"),
    )
)]
pub async fn handle(State(api): State<SharedApi>, params: Params) -> Answer {
    let mut filter = params.all_of(Taker::event_filter)?;
    let limit = filter.limit;
    filter.limit = limit.saturating_add(1);
    let mut events = api.read.events(&filter).await?;
    let next = cut_page(&mut events, limit, |event| present::event_cursor(event.id));
    Ok(Json(present::page(events.iter().map(present::event).collect(), next)))
}

#[cfg(test)]
mod tests {
    use crate::testing::Harness;
    use oncefold_core::Reason;
    use oncefold_testkit::builders::change;
    use serde_json::json;

    #[tokio::test]
    async fn pages_join_to_the_whole_newest_first() {
        let harness = Harness::start();
        let mut ids = vec![];
        for number in 0..7 {
            ids.insert(0, harness.applied(&format!("e{number}"), number, vec![]).await.to_string());
        }
        for limit in [1, 2, 3, 6, 7, 8] {
            let (mut joined, mut pages, mut cursor) = (vec![], 0, String::new());
            loop {
                let reply = harness.get(&format!("/api/v1/events?limit={limit}{cursor}")).await;
                let page = reply.each("id");
                assert!(page.len() <= limit && !page.is_empty(), "limit {limit}: {page:?}");
                joined.extend(page);
                pages += 1;
                match reply.json()["next_cursor"].as_str() {
                    None => break,
                    Some(next) => {
                        assert!(next.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-'), "{next}");
                        cursor = format!("&cursor={next}");
                    }
                }
            }
            assert_eq!(joined, ids, "limit {limit}");
            assert_eq!(pages, 7_usize.div_ceil(limit), "limit {limit}: the last page says that it is");
        }
    }

    #[tokio::test]
    async fn without_a_limit_a_page_has_fifty() {
        let harness = Harness::start();
        for number in 0..51 {
            harness.applied(&format!("e{number}"), number, vec![]).await;
        }
        assert_eq!(harness.get("/api/v1/events").await.each("id").len(), 50);
        assert_eq!(harness.get("/api/v1/events?limit=500").await.each("id").len(), 51);
    }

    #[tokio::test]
    async fn every_filter_filters() {
        let harness = Harness::start();
        harness.applied("one", 0, vec![change("A/1 ü", 1).build()]).await;
        harness.applied("two", 100, vec![change("B", 1).entity("invoice").build()]).await;
        harness.dead("other", "three", Reason::MissingKey).await;
        harness.retrying("four").await;
        for (query, expected) in [
            ("source=other", vec!["three"]),
            ("source=nobody", vec![]),
            ("status=retrying", vec!["four"]),
            ("status=applied&entity=order", vec!["one"]),
            ("entity=invoice", vec!["two"]),
            ("key=A%2F1+%C3%BC", vec!["one"]),
            ("entity=invoice&key=A%2F1%20%C3%BC", vec![]),
            ("event_id=two", vec!["two"]),
            ("type=order.updated&event_id=one", vec!["one"]),
            ("type=order", vec![]),
            // The world begins at 03:04:05; `two` came 100 s later.
            ("since=2026-01-02T03:05:45Z", vec!["two"]),
            ("since=2026-01-02T04:05:45%2B01:00", vec!["two"]),
            ("since=1767323145", vec!["two"]),
            ("since=1767323146", vec![]),
            ("until=2026-01-02T03:05:45Z&status=applied", vec!["one"]),
            ("until=1767323146&status=applied", vec!["two", "one"]),
        ] {
            assert_eq!(harness.get(&format!("/api/v1/events?{query}")).await.each("event_id"), expected, "{query}");
        }
    }

    #[tokio::test]
    async fn a_bad_value_is_named() {
        let harness = Harness::start();
        let long = "x".repeat(600);
        for (name, value) in [
            ("source", "Shop"),
            ("source", ""),
            ("source", "a%00"),
            ("type", &long),
            ("type", "a%00b"),
            ("type", ""),
            ("status", "DEAD"),
            ("status", ""),
            ("entity", "Order"),
            ("key", &long),
            ("key", "%FF"),
            ("key", "%00"),
            ("event_id", &long),
            ("since", "yesterday"),
            ("since", "2026-01-02T03:05:45+02:00"),
            ("until", "2026-13-01T00:00:00Z"),
            ("limit", "0"),
            ("limit", "501"),
            ("limit", "-1"),
            ("limit", "+5"),
            ("limit", "ten"),
            ("limit", "99999999999999999999"),
            ("cursor", "abc"),
            ("cursor", "019b7d2f-0000-7000-8000-000000000000"),
        ] {
            let reply = harness.get(&format!("/api/v1/events?{name}={value}")).await;
            let problem = reply.problem(400, "bad-parameter");
            assert_eq!(problem["parameter"], name, "{value}");
            assert!(reply.body.len() < 1_000, "{problem}");
        }
        assert_eq!(harness.store.calls("events"), 0);
        assert_eq!(harness.get("/api/v1/events?&&limit=1&").await.json(), json!({"items": [], "next_cursor": null}));
    }
}
