//! `GET /api/v1/openapi.json`.

use axum::Extension;
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use http::header;

/// The document, written once.
#[derive(Clone)]
pub struct Document(pub Bytes);

/// This document. It holds no data and asks for no token.
#[utoipa::path(
    get, path = "/api/v1/openapi.json", operation_id = "get_openapi", tag = "openapi",
    responses((status = 200, description = "OpenAPI 3.1", body = serde_json::Value))
)]
pub async fn handle(Extension(document): Extension<Document>) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], document.0).into_response()
}
