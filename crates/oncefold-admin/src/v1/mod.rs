//! One file per endpoint: what it takes, what it answers and how it fails.

pub mod dead_letters;
pub mod entities;
pub mod events;
pub mod openapi;
pub mod rejected;
pub mod sources;

use crate::problem::Problem;
use axum::Json;
use axum::extract::{FromRequestParts, Path};
use http::StatusCode;
use http::request::Parts;
use oncefold_core::EventUuid;
use oncefold_core::store::Refusal;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// What a handler answers.
type Answer = Result<Json<Value>, Problem>;

/// The parameters of a path, percent-decoded. What cannot be decoded names nothing: 404.
pub struct InPath<T>(pub T);

impl<T: DeserializeOwned + Send, S: Sync + Send> FromRequestParts<S> for InPath<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let decoded = Path::from_request_parts(parts, state).await;
        decoded.map(|Path(value)| Self(value)).map_err(|_| Problem::not_found("the path is not percent-encoded UTF-8"))
    }
}

/// Why a change was not made.
fn refused(done: &str, id: EventUuid, refusal: Refusal) -> Problem {
    match refusal {
        Refusal::NotFound => Problem::not_found(format!("there is no event `{id}`")),
        Refusal::WrongStatus(status) => {
            let detail = format!("event `{id}` is {status}: in this status it cannot be {done}");
            Problem::of(StatusCode::CONFLICT, "wrong-status", detail).with("event_status", status.as_str())
        }
        Refusal::BodyGone => {
            let detail = format!("retention dropped the body of event `{id}`: it cannot be {done}");
            Problem::of(StatusCode::GONE, "body-gone", detail)
        }
    }
}
