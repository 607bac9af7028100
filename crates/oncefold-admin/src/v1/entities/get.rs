//! `GET /api/v1/entities/{entity}/{key}`.

use crate::api::{Api, SharedApi};
use crate::present;
use crate::problem::{Problem, excerpt};
use crate::v1::{Answer, InPath};
use axum::Json;
use axum::extract::State;
use oncefold_core::EntityKind;
use oncefold_core::limits::KEY_BYTES_MAX;
use oncefold_core::store::EntityRecord;

/// One entity. A key with `/` in it is sent percent-encoded.
#[utoipa::path(
    get, path = "/api/v1/entities/{entity}/{key}", operation_id = "get_entity", tag = "entities",
    params(
        ("entity" = String, Path, description = "Its kind"),
        ("key" = String, Path, description = "Its key, percent-encoded"),
    ),
    responses(
        (status = 200, description = "The entity; one that is deleted too", body = crate::schema::Entity),
        (status = 404, description = "No such entity", body = crate::schema::Problem, content_type = "application/problem+json"),
    )
)]
pub async fn handle(State(api): State<SharedApi>, InPath((entity, key)): InPath<(String, String)>) -> Answer {
    Ok(Json(present::entity(&find(&api, &entity, &key).await?)))
}

/// The entity a path names. What can be no kind or no key is not looked for.
///
/// # Errors
/// 404 where there is none.
pub async fn find(api: &Api, entity: &str, key: &str) -> Result<EntityRecord, Problem> {
    let possible = EntityKind::parse(entity).is_ok() && key.len() <= KEY_BYTES_MAX && !key.contains('\0');
    let found = if possible { api.read.entity(entity, key).await? } else { None };
    found.ok_or_else(|| {
        Problem::not_found(format!("there is no entity `{}` with key `{}`", excerpt(entity), excerpt(key)))
    })
}

#[cfg(test)]
mod tests {
    use crate::testing::Harness;
    use oncefold_testkit::builders::change;
    use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
    use serde_json::json;

    /// contract.md, "Entity".
    #[tokio::test]
    async fn an_entity_is_shown_as_the_contract_says() {
        let harness = Harness::start();
        let exact = r#"{"amount":1.10,"id":90071992547409931234567890}"#;
        let id = harness.applied("e", 0, vec![change("k", 4).state(exact).build()]).await;
        let reply = harness.get("/api/v1/entities/order/k").await;
        let text = std::str::from_utf8(&reply.body).unwrap();
        assert!(text.contains(exact), "numbers stay exact: {text}");
        let mut shown = reply.json();
        shown.as_object_mut().unwrap().remove("state");
        let expected = json!({"entity": "order", "key": "k", "version": "4", "deleted": false, "event": id,
            "updated_at": "2026-01-02T03:05:05.000000Z"});
        assert_eq!(shown, expected);
    }

    #[tokio::test]
    async fn a_deleted_one_is_shown_without_state() {
        let harness = Harness::start();
        harness.applied("e", 0, vec![change("k", 4).delete().build()]).await;
        let shown = harness.get("/api/v1/entities/order/k").await.json();
        assert_eq!((&shown["state"], &shown["deleted"]), (&json!(null), &json!(true)));
    }

    #[tokio::test]
    async fn any_key_is_reached_percent_encoded() {
        let harness = Harness::start();
        let longest = "k".repeat(512);
        let keys = [
            "a/b",
            "a%2Fb",
            "a\\b",
            "a\\:b",
            "ключ 🔑",
            "a+b",
            "a b",
            "?#&=",
            "history",
            "a/history",
            "..",
            ".",
            "%",
            "%00",
            "\"",
            "\n",
            "{key}",
            "*",
            "e\u{301}",
            "é",
            &longest,
        ];
        harness.applied("e", 0, keys.iter().map(|key| change(key, 1).build()).collect()).await;
        for key in keys {
            let encoded = utf8_percent_encode(key, NON_ALPHANUMERIC);
            let reply = harness.get(&format!("/api/v1/entities/order/{encoded}")).await;
            assert_eq!(reply.json()["key"], key, "{encoded}");
            let history = harness.get(&format!("/api/v1/entities/order/{encoded}/history")).await;
            assert_eq!(history.each("version"), ["1"], "{encoded}");
        }
        // A plus sign in a path is a plus sign (RFC 3986, section 3.3).
        assert_eq!(harness.get("/api/v1/entities/order/a+b").await.json()["key"], "a+b");
    }

    #[tokio::test]
    async fn what_can_be_no_entity_is_not_looked_for() {
        let harness = Harness::start();
        let long = "k".repeat(513);
        for path in
            ["order/nothing", "Order/k", "%00/k", "order/%00", "order/a%00b", "order/%FF", &format!("order/{long}")]
        {
            harness.get(&format!("/api/v1/entities/{path}")).await.problem(404, "not-found");
            harness.get(&format!("/api/v1/entities/{path}/history")).await.problem(404, "not-found");
        }
        assert_eq!(harness.store.calls("entity"), 2);
    }
}
