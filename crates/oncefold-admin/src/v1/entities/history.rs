//! `GET /api/v1/entities/{entity}/{key}/history`.

use super::get::find;
use crate::api::SharedApi;
use crate::params::Params;
use crate::present;
use crate::v1::{Answer, InPath};
use axum::Json;
use axum::extract::State;
use oncefold_core::store::HistoryRecord;

/// What changed an entity, or tried to: newest event first.
#[utoipa::path(
    get, path = "/api/v1/entities/{entity}/{key}/history", operation_id = "get_entity_history", tag = "entities",
    params(
        ("entity" = String, Path, description = "Its kind"),
        ("key" = String, Path, description = "Its key, percent-encoded"),
        ("limit" = Option<u32>, Query, description = "1 to 500, by default 50"),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the page before"),
    ),
    responses(
        (status = 200, description = "A page", body = crate::schema::HistoryPage),
        (status = 400, description = "A bad parameter", body = crate::schema::Problem, content_type = "application/problem+json"),
        (status = 404, description = "No such entity", body = crate::schema::Problem, content_type = "application/problem+json"),
    )
)]
pub async fn handle(
    State(api): State<SharedApi>,
    InPath((entity, key)): InPath<(String, String)>,
    params: Params,
) -> Answer {
    let (limit, before) = params.all_of(|params| Ok((params.limit()?, params.cursor(present::parse_event_cursor)?)))?;
    let entity = find(&api, &entity, &key).await?;
    let mut asked = limit;
    let (changes, next) = loop {
        asked = asked.saturating_mul(2).saturating_add(1);
        let changes = api.read.history(entity.entity.as_str(), &entity.key, before, asked).await?;
        if let Some(page) = page_of(changes, (limit, asked)) {
            break page;
        }
    };
    Ok(Json(present::page(changes.iter().map(present::history).collect(), next)))
}

/// The page of at most `limit` that these changes start with, and its cursor, if `asked` were enough to tell.
///
/// A cursor is an event, so the changes of one event are never parted: a page ends before the event that would not
/// fit, and grows where one event alone has more changes than fit.
fn page_of(
    mut changes: Vec<HistoryRecord>,
    (limit, asked): (u32, u32),
) -> Option<(Vec<HistoryRecord>, Option<String>)> {
    let exhausted = changes.len() < usize::try_from(asked).unwrap_or(usize::MAX);
    match page_end(&changes, usize::try_from(limit).unwrap_or(usize::MAX)) {
        Some(end) => {
            changes.truncate(end);
            let next = changes.last().map(|last| present::event_cursor(last.event));
            Some((changes, next))
        }
        None => exhausted.then_some((changes, None)),
    }
}

/// Where the page ends, if changes of another event follow it.
fn page_end(changes: &[HistoryRecord], limit: usize) -> Option<usize> {
    let starts = || (1..changes.len()).filter(|&i| changes[i].event != changes[i - 1].event);
    if changes.len() <= limit {
        return None;
    }
    starts().take_while(|&i| i <= limit).last().or_else(|| starts().next())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Harness;
    use oncefold_core::Verdict;
    use oncefold_testkit::builders::{START, at, change, event_uuid, source};
    use serde_json::json;

    #[tokio::test]
    async fn every_verdict_is_kept_newest_event_first() {
        let harness = Harness::start();
        let first = harness.applied("one", 0, vec![change("k", 5).build()]).await;
        let second = harness.applied("two", 1, vec![change("k", 3).build()]).await;
        harness.applied("other", 2, vec![change("x", 9).build()]).await;
        let item = |event, version: &str, verdict: &str| {
            json!({"event": event, "source": "shop", "type": "order.updated", "version": version, "verdict": verdict,
                "at": "2026-01-02T03:05:05.000000Z"})
        };
        let items = json!([item(second, "3", "stale"), item(first, "5", "applied")]);
        let shown = harness.get("/api/v1/entities/order/k/history").await.json();
        assert_eq!(shown, json!({"items": items, "next_cursor": null}));
    }

    #[tokio::test]
    async fn a_cursor_goes_on_where_the_page_ended() {
        let harness = Harness::start();
        for number in 0..5 {
            harness.applied(&format!("e{number}"), number, vec![change("k", number).build()]).await;
        }
        let first = harness.get("/api/v1/entities/order/k/history?limit=3").await;
        assert_eq!(first.each("version"), ["4", "3", "2"]);
        let next = first.json()["next_cursor"].as_str().unwrap().to_owned();
        let second = harness.get(&format!("/api/v1/entities/order/k/history?limit=3&cursor={next}")).await;
        assert_eq!(
            (second.each("version"), &second.json()["next_cursor"]),
            (vec!["1".into(), "0".into()], &json!(null))
        );
    }

    /// Events with 1, 2, 9, 1, 3 and 1 changes of one entity, the newest first.
    #[test]
    fn pages_join_to_the_whole_and_part_no_event() {
        let counts = [1, 2, 9, 1, 3, 1];
        let first_of = |number: usize| HistoryRecord {
            event: event_uuid(at(100 - number as u64)),
            source: source("shop"),
            event_type: None,
            version: String::new(),
            verdict: Verdict::Applied,
            at: START,
        };
        let whole: Vec<_> = counts
            .into_iter()
            .enumerate()
            .flat_map(|(number, count)| {
                let first = first_of(number);
                (0..count).map(move |change| HistoryRecord { version: change.to_string(), ..first.clone() })
            })
            .collect();
        for limit in 1..=18 {
            let (mut joined, mut before) = (vec![], None);
            loop {
                let page_asking = |asked: u32| {
                    let rest = whole.iter().filter(|change| before.is_none_or(|before| change.event < before));
                    page_of(rest.take(asked as usize).cloned().collect(), (limit, asked))
                };
                let (changes, next) = (limit + 1..).find_map(page_asking).unwrap();
                let fits = changes.len() <= limit as usize || changes.iter().all(|c| c.event == changes[0].event);
                assert!(!changes.is_empty() && fits, "limit {limit}: {changes:?}");
                joined.extend(changes);
                let Some(next) = next else { break };
                before = present::parse_event_cursor(&next);
            }
            assert_eq!(joined, whole, "limit {limit}");
        }
    }

    #[tokio::test]
    async fn a_bad_value_is_named() {
        let harness = Harness::start();
        for (name, value) in [("limit", "0"), ("cursor", "zz"), ("since", "1")] {
            let path = format!("/api/v1/entities/order/k/history?{name}={value}");
            assert_eq!(harness.get(&path).await.problem(400, "bad-parameter")["parameter"], name);
        }
    }

    #[test]
    fn a_page_that_holds_everything_has_no_end() {
        assert_eq!(page_end(&[], 1), None);
    }
}
