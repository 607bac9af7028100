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
