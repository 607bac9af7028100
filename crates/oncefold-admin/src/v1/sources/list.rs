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
