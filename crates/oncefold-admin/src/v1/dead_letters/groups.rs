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
