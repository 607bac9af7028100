//! `GET /api/v1/entities`.

use crate::api::SharedApi;
use crate::params::{Params, cut_page};
use crate::present;
use crate::v1::Answer;
use axum::Json;
use axum::extract::State;
use oncefold_core::store::EntityFilter;

/// Entities by (entity, key), deleted ones included unless `deleted=false`.
#[utoipa::path(
    get, path = "/api/v1/entities", operation_id = "list_entities", tag = "entities",
    params(
        ("entity" = Option<String>, Query, description = "Of this kind"),
        ("key_prefix" = Option<String>, Query, description = "Whose key starts with this"),
        ("deleted" = Option<bool>, Query, description = "Only deleted ones, or only living ones"),
        ("limit" = Option<u32>, Query, description = "1 to 500, by default 50"),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the page before"),
    ),
    responses(
        (status = 200, description = "A page", body = crate::schema::EntityPage),
        (status = 400, description = "A bad parameter", body = crate::schema::Problem, content_type = "application/problem+json"),
    )
)]
pub async fn handle(State(api): State<SharedApi>, params: Params) -> Answer {
    let mut filter = params.all_of(|params| {
        Ok(EntityFilter {
            entity: params.entity()?,
            key_prefix: params.key_prefix()?,
            deleted: params.flag("deleted")?,
            limit: params.limit()?,
            after: params.cursor(present::parse_entity_cursor)?,
        })
    })?;
    let limit = filter.limit;
    filter.limit = limit.saturating_add(1);
    let mut entities = api.read.entities(&filter).await?;
    let next = cut_page(&mut entities, limit, |last| present::entity_cursor(last.entity.as_str(), &last.key));
    Ok(Json(present::page(entities.iter().map(present::entity).collect(), next)))
}

#[cfg(test)]
mod tests {
    use crate::testing::Harness;
    use oncefold_testkit::builders::change;
    use serde_json::json;

    const KEYS: [&str; 4] = ["A", "A/1", "a", "ž"];

    async fn filled() -> Harness {
        let harness = Harness::start();
        let mut changes = vec![change("1", 1).entity("invoice").build()];
        changes.extend(KEYS.iter().map(|key| change(key, 1).build()));
        changes.push(change("gone", 1).delete().build());
        harness.applied("e", 0, changes).await;
        harness
    }

    #[tokio::test]
    async fn they_are_listed_by_entity_and_key() {
        let harness = filled().await;
        for (query, expected) in [
            ("", vec!["1", "A", "A/1", "a", "gone", "ž"]),
            ("?deleted=false", vec!["1", "A", "A/1", "a", "ž"]),
            ("?deleted=true", vec!["gone"]),
            ("?entity=order&key_prefix=A", vec!["A", "A/1"]),
            ("?key_prefix=A%2F", vec!["A/1"]),
            ("?key_prefix=%C5%BE", vec!["ž"]),
            ("?key_prefix=&entity=invoice", vec!["1"]),
            ("?key_prefix=%25", vec![]),
            ("?entity=nothing", vec![]),
        ] {
            assert_eq!(harness.get(&format!("/api/v1/entities{query}")).await.each("key"), expected, "{query}");
        }
        let gone = &harness.get("/api/v1/entities?deleted=true").await.json()["items"][0];
        assert_eq!((&gone["state"], &gone["deleted"]), (&json!(null), &json!(true)));
    }

    #[tokio::test]
    async fn pages_join_to_the_whole() {
        let harness = filled().await;
        for limit in [1, 2, 3, 6] {
            let (mut joined, mut cursor) = (vec![], String::new());
            loop {
                let reply = harness.get(&format!("/api/v1/entities?limit={limit}{cursor}")).await;
                joined.extend(reply.each("key"));
                let page = reply.json();
                let Some(next) = page["next_cursor"].as_str() else { break };
                assert!(next.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-'), "{next}");
                cursor = format!("&cursor={next}");
            }
            assert_eq!(joined, ["1", "A", "A/1", "a", "gone", "ž"], "limit {limit}");
        }
    }

    #[tokio::test]
    async fn a_bad_value_is_named() {
        let harness = Harness::start();
        let long = "x".repeat(513);
        // base64url of `["a"]`, of `["a\u0000","b"]`, and of nothing.
        for (name, value) in [
            ("entity", "a-b"),
            ("deleted", "yes"),
            ("deleted", ""),
            ("key_prefix", "%00"),
            ("key_prefix", &long),
            ("limit", "1.0"),
            ("cursor", "WyJhIl0"),
            ("cursor", "WyJhXHUwMDAwIiwiYiJd"),
            ("cursor", ""),
            ("cursor", "*"),
        ] {
            let problem = harness.get(&format!("/api/v1/entities?{name}={value}")).await.problem(400, "bad-parameter");
            assert_eq!(problem["parameter"], name, "{value}");
        }
        assert_eq!(harness.store.calls("entities"), 0);
    }
}
