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
