//! `GET /api/v1/sources`.

use crate::api::{Api, SharedApi};
use crate::params::Params;
use crate::present;
use crate::v1::Answer;
use axum::Json;
use axum::extract::State;
use oncefold_core::SourceName;
use oncefold_core::queue::QueueName;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;

/// A queue that does not answer within this is shown as away.
const DEPTHS_TIMEOUT: Duration = Duration::from_secs(2);

/// Every source that the store or the config knows, by name.
#[utoipa::path(
    get, path = "/api/v1/sources", operation_id = "list_sources", tag = "sources",
    responses((status = 200, description = "All of them, on one page", body = crate::schema::SourcePage))
)]
pub async fn handle(State(api): State<SharedApi>, params: Params) -> Answer {
    params.all_of(|_| Ok(()))?;
    let mut sources: BTreeMap<SourceName, Value> =
        api.configured_sources.iter().map(|name| (name.clone(), present::unseen_source(name))).collect();
    for record in api.read.sources().await? {
        let configured = api.configured_sources.contains(&record.name);
        sources.insert(record.name.clone(), present::source(&record, configured));
    }
    let names: Vec<_> = sources.keys().cloned().collect();
    let depths = depths(&api, &names).await;
    for (name, source) in &mut sources {
        source["queue_depth"] = json!(depths.get(name));
    }
    Ok(Json(present::page(sources.into_values().collect(), None)))
}

/// Messages waiting, where the queue tells.
async fn depths(api: &Api, sources: &[SourceName]) -> BTreeMap<SourceName, u64> {
    let Some(queue) = &api.queue else { return BTreeMap::new() };
    let Ok(Ok(depths)) = tokio::time::timeout(DEPTHS_TIMEOUT, queue.depths(sources)).await else {
        return BTreeMap::new();
    };
    let of_source = |(queue, depth)| match queue {
        QueueName::Work(source) => Some((source, depth)),
        QueueName::Dead => None,
    };
    depths.into_iter().filter_map(of_source).collect()
}

#[cfg(test)]
mod tests {
    use crate::testing::Harness;
    use oncefold_core::Reason;
    use oncefold_core::queue::{Publisher as _, QueueAdmin as _};
    use oncefold_testkit::builders::{message, source};
    use serde_json::json;
    use std::sync::Arc;

    /// `shop` is configured; `old` is known from before; the queue tells how many events wait.
    #[tokio::test]
    async fn known_and_configured_sources_are_listed() {
        let harness = Harness::start();
        let fresh = harness.get("/api/v1/sources").await.json();
        let shop = json!({"name": "shop", "first_seen_at": null, "configured": true, "queue_depth": 0});
        assert_eq!(fresh["items"][0]["name"], "shop");
        assert_eq!(fresh["items"][0]["first_seen_at"], json!(null));

        harness.queue.declare(&[source("shop"), source("old")]).await.unwrap();
        assert_eq!(harness.get("/api/v1/sources").await.json()["items"], json!([shop]));
        harness.dead("old", "a", Reason::BadId).await;
        harness.applied("b", 0, vec![]).await;
        for event_id in ["x", "y"] {
            harness.queue.publish(Arc::new(message("shop", event_id, "").build())).await.unwrap();
        }
        let reply = harness.get("/api/v1/sources").await;
        let seen = "2026-01-02T03:04:05.000000Z";
        let expected = json!({"items": [
            {"name": "old", "first_seen_at": seen, "configured": false, "queue_depth": 0},
            {"name": "shop", "first_seen_at": seen, "configured": true, "queue_depth": 2},
        ], "next_cursor": null});
        assert_eq!(reply.json(), expected);
        harness.queue.set_away(true);
        assert_eq!(harness.get("/api/v1/sources").await.json()["items"][1]["queue_depth"], json!(null));
    }
}
