//! What every change goes through after its caller is known: its body is read whole and bounded, an
//! `Idempotency-Key` is honoured, and once begun it is finished even where the caller has hung up.

use crate::api::SharedApi;
use crate::problem::{Problem, problem_response};
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{FromRequest as _, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use http::request::Parts;
use http::{HeaderMap, HeaderName, StatusCode, header};
use oncefold_core::Digest;
use oncefold_core::store::{Actor, Answer, Idempotency};
use std::time::Duration;

/// Longest body of a change, bytes.
pub const BODY_BYTES_MAX: usize = 64 * 1024;
/// The header that makes a change repeatable.
pub const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const IDEMPOTENCY_KEY_BYTES_MAX: usize = 255;
/// How long an answer is kept under its key.
const ANSWER_KEPT: Duration = Duration::from_secs(24 * 3600);
/// How long a caller may take to send a body.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// Runs the rest of the request as a change.
pub async fn run(State(api): State<SharedApi>, request: Request, next: Next) -> Response {
    begin(api, request, next).await.unwrap_or_else(Problem::into_response)
}

async fn begin(api: SharedApi, request: Request, next: Next) -> Result<Response, Problem> {
    let (parts, body) = read_whole(request).await?;
    let claim = claim(&api, &parts, &body)?;
    let request = Request::from_parts(parts, Body::from(body));
    let mutations = api.mutations.clone();
    let answered = mutations.spawn(async move {
        match claim {
            None => Ok(next.run(request).await),
            Some(claim) => once(&api, &claim, request, next).await,
        }
    });
    answered.await.unwrap_or_else(|_panicked| Err(Problem::internal()))
}

async fn read_whole(request: Request) -> Result<(Parts, Bytes), Problem> {
    let (parts, body) = request.into_parts();
    let request = Request::from_parts(parts.clone(), body);
    let late = |_| Problem::of(StatusCode::REQUEST_TIMEOUT, "slow-body", "the body did not arrive in time");
    match tokio::time::timeout(BODY_TIMEOUT, Bytes::from_request(request, &())).await.map_err(late)? {
        Ok(body) => Ok((parts, body)),
        Err(rejection) if rejection.status() == StatusCode::PAYLOAD_TOO_LARGE => {
            let detail = format!("the body is larger than {BODY_BYTES_MAX} bytes");
            Err(Problem::of(StatusCode::PAYLOAD_TOO_LARGE, "body-too-large", detail))
        }
        Err(_) => Err(Problem::bad_body("the body did not arrive whole")),
    }
}

fn claim(api: &SharedApi, parts: &Parts, body: &Bytes) -> Result<Option<Idempotency>, Problem> {
    let Some(key) = idempotency_key(&parts.headers)? else { return Ok(None) };
    let actor = parts.extensions.get::<Actor>().cloned().ok_or_else(Problem::internal)?;
    let now = api.clock.now();
    // Neither a method nor a request target holds a line feed, so different requests have different digests.
    let mut request = format!("{}\n{}\n", parts.method, parts.uri).into_bytes();
    request.extend_from_slice(body);
    let request = Digest::of(&request);
    Ok(Some(Idempotency { key, actor, request, now, expired_before: now.minus(ANSWER_KEPT) }))
}

fn idempotency_key(headers: &HeaderMap) -> Result<Option<String>, Problem> {
    let mut values = headers.get_all(IDEMPOTENCY_KEY).iter();
    let Some(value) = values.next() else { return Ok(None) };
    let fits = (1..=IDEMPOTENCY_KEY_BYTES_MAX).contains(&value.len())
        && value.as_bytes().iter().all(u8::is_ascii_graphic)
        && values.next().is_none();
    match value.to_str() {
        Ok(key) if fits => Ok(Some(key.to_owned())),
        _ => {
            let detail = format!("send one key of 1 to {IDEMPOTENCY_KEY_BYTES_MAX} visible ASCII characters");
            Err(Problem::bad_parameter("Idempotency-Key", detail))
        }
    }
}

async fn once(api: &SharedApi, claim: &Idempotency, request: Request, next: Next) -> Result<Response, Problem> {
    match api.act.begin_idempotent(claim).await? {
        Answer::Fresh => {}
        Answer::Known { status, body } => return known(status, body),
        Answer::InProgress => {
            let detail = "the first request under this Idempotency-Key is still being answered: ask again later";
            return Err(Problem::of(StatusCode::CONFLICT, "idempotency-in-progress", detail));
        }
        Answer::Differs => {
            let detail = "this Idempotency-Key was used for another request: take a new key";
            return Err(Problem::of(StatusCode::UNPROCESSABLE_ENTITY, "idempotency-key-reused", detail));
        }
    }
    // In a task of its own, so that a panic frees the key too.
    let answered = tokio::spawn(next.run(request)).await;
    let (parts, body) = answered.unwrap_or_else(|_panicked| Problem::internal().into_response()).into_parts();
    let body = to_bytes(body, usize::MAX).await.map_err(|_| Problem::internal())?;
    let kept = match std::str::from_utf8(&body) {
        Ok(text) if !parts.status.is_server_error() => Some((parts.status.as_u16(), text.to_owned())),
        _ => None,
    };
    if let Err(error) = api.act.finish_idempotent(claim, kept).await {
        tracing::error!(%error, actor = claim.actor.0, "the answer under an Idempotency-Key could not be kept");
    }
    Ok(Response::from_parts(parts, Body::from(body)))
}

fn known(status: u16, body: String) -> Result<Response, Problem> {
    let status = StatusCode::from_u16(status).map_err(|_| Problem::internal())?;
    if status.is_success() {
        Ok((status, [(header::CONTENT_TYPE, "application/json")], body).into_response())
    } else {
        Ok(problem_response(status, body))
    }
}
