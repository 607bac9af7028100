//! Answers: the source's own on success, problem details (RFC 9457) otherwise. A problem says what the caller did,
//! never why a signature did not fit.

use crate::certificates::NoCertificate;
use crate::outcome::Outcome;
use crate::settings::Respond;
use bytes::Bytes;
use http::header::{
    ACCEPT_ENCODING, ALLOW, CONNECTION, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderName, HeaderValue, Method, StatusCode};
use http_body_util::Full;
use oncefold_core::queue::PublishError;
use oncefold_core::store::StoreError;
use oncefold_signature::{Answer, Rejection};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;

/// An answer: short, and whole.
pub(crate) type Response = http::Response<Full<Bytes>>;

/// The answer's header that names the delivery in our logs.
const TRACE: HeaderName = HeaderName::from_static("oncefold-trace");

/// Why a delivery is not accepted. The text is for our log.
#[derive(Debug, Error)]
pub(crate) enum Refusal {
    #[error("there is no such source")]
    UnknownSource,
    #[error("the source does not take this method")]
    WrongMethod,
    #[error("the body has a Content-Encoding that the source does not allow")]
    UnsupportedEncoding,
    #[error("the body is longer than {0} bytes")]
    TooLarge(usize),
    #[error("the body was not complete after {} ms", .0.as_millis())]
    TooSlow(Duration),
    #[error("the body is not framed as HTTP says")]
    Malformed,
    #[error("the client went away before its body was complete")]
    Disconnected,
    #[error("too many bytes of bodies are in hand")]
    Overloaded,
    #[error("{}: {}", .0.reason, .0.detail)]
    Rejected(Rejection),
    #[error("{0}")]
    NoCertificate(NoCertificate),
    #[error("{0}; {1}")]
    Unavailable(PublishError, NotSpooled),
    #[error("the delivery's task was cut off")]
    CutOff,
}

/// Why the spool did not take an event.
#[derive(Debug, Error)]
pub(crate) enum NotSpooled {
    #[error("there is no spool")]
    NoSpool,
    #[error("the spool's queue is full")]
    Full,
    #[error("the spool did not answer within {} ms", .0.as_millis())]
    TimedOut(Duration),
    #[error("the spool failed: {0}")]
    Store(Arc<StoreError>),
    #[error("the spool's writer has ended")]
    Ended,
}

impl Refusal {
    pub(crate) const fn outcome(&self) -> Outcome {
        match self {
            Self::UnknownSource => Outcome::UnknownSource,
            Self::WrongMethod => Outcome::WrongMethod,
            Self::UnsupportedEncoding => Outcome::UnsupportedEncoding,
            Self::TooLarge(_) => Outcome::TooLarge,
            Self::TooSlow(_) => Outcome::TooSlow,
            Self::Malformed => Outcome::Malformed,
            Self::Disconnected => Outcome::Disconnected,
            Self::Overloaded => Outcome::Overloaded,
            Self::Rejected(_) => Outcome::Rejected,
            Self::NoCertificate(_) | Self::Unavailable(..) | Self::CutOff => Outcome::Unavailable,
        }
    }

    /// The stable class that a log line carries.
    pub(crate) const fn reason(&self) -> &'static str {
        match self {
            Self::Rejected(rejection) => rejection.reason.as_str(),
            other => other.outcome().as_str(),
        }
    }

    /// Whether the connection ends with the answer, since the rest of the request is not read.
    const fn ends_connection(&self) -> bool {
        matches!(self, Self::TooLarge(_) | Self::TooSlow(_) | Self::Malformed | Self::Disconnected | Self::Overloaded)
    }

    const fn status_and_detail(&self) -> (StatusCode, &'static str) {
        match self {
            Self::UnknownSource => (StatusCode::NOT_FOUND, "There is no source at this path."),
            Self::WrongMethod => (StatusCode::METHOD_NOT_ALLOWED, "The source takes the methods that Allow lists."),
            Self::UnsupportedEncoding => {
                (StatusCode::UNSUPPORTED_MEDIA_TYPE, "Send the body in an encoding that Accept-Encoding lists.")
            }
            Self::TooLarge(_) => (StatusCode::PAYLOAD_TOO_LARGE, "The body is over the limit."),
            Self::TooSlow(_) => (StatusCode::REQUEST_TIMEOUT, "The body did not come in time."),
            Self::Malformed | Self::Disconnected => (StatusCode::BAD_REQUEST, "The body is incomplete or malformed."),
            Self::Rejected(_) => (StatusCode::UNAUTHORIZED, "The delivery could not be verified."),
            Self::Overloaded | Self::NoCertificate(_) | Self::Unavailable(..) | Self::CutOff => {
                (StatusCode::SERVICE_UNAVAILABLE, "The delivery could not be kept; send it again.")
            }
        }
    }

    /// The answer to the caller.
    pub(crate) fn answer(&self, context: &AnswerContext<'_>) -> Response {
        let (status, detail) = self.status_and_detail();
        let title = status.canonical_reason().unwrap_or_default();
        let problem = json!({"type": "about:blank", "title": title, "status": status.as_u16(), "detail": detail});
        let bare = context.bare_401 && matches!(self, Self::Rejected(_));
        let mut response = Response::new(Full::from(if bare { String::new() } else { problem.to_string() }));
        *response.status_mut() = status;
        let headers = response.headers_mut();
        if !bare {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        }
        match self {
            Self::WrongMethod => {
                headers.insert(ALLOW, allow(context));
            }
            // RFC 9110, section 15.5.16.
            Self::UnsupportedEncoding => {
                let encodings = if context.takes_gzip { "gzip, identity" } else { "identity" };
                headers.insert(ACCEPT_ENCODING, HeaderValue::from_static(encodings));
            }
            // RFC 9110, section 15.5.2: a 401 names at least one challenge.
            Self::Rejected(_) => {
                let challenge = if context.basic { "Basic realm=\"oncefold\"" } else { "Signature realm=\"oncefold\"" };
                headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static(challenge));
            }
            Self::Overloaded | Self::NoCertificate(_) | Self::Unavailable(..) | Self::CutOff => {
                headers.insert(RETRY_AFTER, HeaderValue::from(context.retry_after.as_secs().max(1)));
            }
            _ => {}
        }
        if self.ends_connection() {
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
        traced(response, context.trace)
    }
}

/// What an answer depends on beside the refusal.
pub(crate) struct AnswerContext<'a> {
    pub(crate) methods: &'a [Method],
    /// What handshakes use besides.
    pub(crate) handshake_method: Option<&'static str>,
    pub(crate) takes_gzip: bool,
    /// Whether a refused signature is answered with nothing but its status.
    pub(crate) bare_401: bool,
    pub(crate) basic: bool,
    pub(crate) retry_after: Duration,
    pub(crate) trace: &'a str,
}

/// The answer to an accepted delivery.
pub(crate) fn accepted(respond: &Respond, trace: &str) -> Response {
    let mut response = Response::new(Full::new(respond.body.clone()));
    *response.status_mut() = respond.status;
    if let Some(content_type) = &respond.content_type {
        response.headers_mut().insert(CONTENT_TYPE, content_type.clone());
    }
    traced(response, trace)
}

/// The answer to a handshake, to the letter.
pub(crate) fn handshake(answer: &Answer, trace: &str) -> Response {
    let mut response = Response::new(Full::from(answer.body.clone()));
    *response.status_mut() = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::OK);
    if let Some(content_type) = answer.content_type {
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    }
    if answer.nosniff {
        response.headers_mut().insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    }
    traced(response, trace)
}

fn traced(mut response: Response, trace: &str) -> Response {
    if let Ok(value) = HeaderValue::from_str(trace) {
        response.headers_mut().insert(TRACE, value);
    }
    response
}

fn allow(context: &AnswerContext<'_>) -> HeaderValue {
    let methods = context.methods.iter().map(Method::as_str);
    let more = context.handshake_method.filter(|method| context.methods.iter().all(|given| given.as_str() != *method));
    HeaderValue::from_str(&methods.chain(more).collect::<Vec<_>>().join(", "))
        .unwrap_or_else(|_| HeaderValue::from_static("POST"))
}
