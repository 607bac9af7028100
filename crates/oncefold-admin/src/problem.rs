//! Problem details (RFC 9457): the one shape of every answer that is not a success.

use axum::response::{IntoResponse, Response};
use http::{HeaderName, HeaderValue, StatusCode, header};
use oncefold_core::store::StoreError;
use serde_json::{Map, Value, json};

/// After how long a caller should ask again while the database is away, seconds.
const RETRY_AFTER_S: u64 = 5;

/// An answer that is not a success.
#[derive(Debug)]
pub struct Problem {
    status: StatusCode,
    /// Ends the `type` URI; callers tell problems apart by it.
    slug: &'static str,
    detail: String,
    /// Members of this type alone.
    members: Map<String, Value>,
    headers: Vec<(HeaderName, HeaderValue)>,
}

impl Problem {
    /// A problem of this type; `detail` says what happened and what to do.
    pub fn of(status: StatusCode, slug: &'static str, detail: impl Into<String>) -> Self {
        Self { status, slug, detail: detail.into(), members: Map::new(), headers: Vec::new() }
    }

    /// With a member of its own.
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.members.insert(name.to_owned(), value.into());
        self
    }

    fn with_header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.push((name, value));
        self
    }

    /// 400: a parameter has a value it cannot have.
    pub fn bad_parameter(name: &str, detail: impl Into<String>) -> Self {
        Self::of(StatusCode::BAD_REQUEST, "bad-parameter", detail).with("parameter", excerpt(name))
    }

    /// 400: the body is not what the endpoint takes.
    pub fn bad_body(detail: impl Into<String>) -> Self {
        Self::of(StatusCode::BAD_REQUEST, "bad-body", detail)
    }

    /// 404: the thing does not exist.
    pub fn not_found(detail: impl Into<String>) -> Self {
        Self::of(StatusCode::NOT_FOUND, "not-found", detail)
    }

    /// 401 with its challenge (RFC 6750, section 3).
    pub fn unauthorized(challenge: &'static str) -> Self {
        let detail = "send `Authorization: Bearer TOKEN` with a token of [admin] tokens";
        Self::of(StatusCode::UNAUTHORIZED, "unauthorized", detail)
            .with_header(header::WWW_AUTHENTICATE, HeaderValue::from_static(challenge))
    }

    /// 403: a viewer may only look.
    pub fn forbidden() -> Self {
        Self::of(StatusCode::FORBIDDEN, "forbidden", "this token only allows looking: use one of role `operator`")
    }

    /// 500: our fault. The cause is in the log, not in the answer.
    pub fn internal() -> Self {
        Self::of(StatusCode::INTERNAL_SERVER_ERROR, "internal", "this failed on our side: the log says why")
    }

    fn unavailable() -> Self {
        Self::of(StatusCode::SERVICE_UNAVAILABLE, "unavailable", "the database cannot be used now: ask again later")
            .with_header(header::RETRY_AFTER, RETRY_AFTER_S.into())
    }

    fn body(&self) -> Value {
        let mut body = json!({
            "type": format!("urn:oncefold:problem:{}", self.slug),
            "title": self.status.canonical_reason(),
            "status": self.status.as_u16(),
            "detail": self.detail,
        });
        for (name, value) in &self.members {
            body[name] = value.clone();
        }
        body
    }
}

/// The store's failures are logged here, once.
impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Unavailable(_) | StoreError::Hindered(_) | StoreError::Conflict(_) => {
                tracing::warn!(%error, "an admin request could not be answered");
                Self::unavailable()
            }
            StoreError::Refused(_) | StoreError::Failed(_) | StoreError::RulesBehind => {
                tracing::error!(%error, "an admin request failed");
                Self::internal()
            }
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = problem_response(self.status, self.body().to_string());
        for (name, value) in self.headers {
            response.headers_mut().insert(name, value);
        }
        response
    }
}

/// A problem whose body is written already.
pub fn problem_response(status: StatusCode, body: String) -> Response {
    (status, [(header::CONTENT_TYPE, "application/problem+json")], body).into_response()
}

/// What a caller sent, bounded and printable.
pub fn excerpt(text: &str) -> String {
    text.chars().take(80).flat_map(char::escape_default).collect()
}
