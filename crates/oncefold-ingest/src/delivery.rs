//! A delivery that was received whole: verified over its raw bytes, given an identity, made durable, answered.

use crate::answer::Refusal;
use crate::body::HeldBody;
use crate::intake::{SourceState, Tally, unix_time};
use axum::response::Response;
use http::request::Parts;
use oncefold_core::locator::Document;
use oncefold_core::{Digest, EventUuid, Facts, FactsJson, Message, Timestamp, json, prepare};
use oncefold_signature::{Rejection, Request, Verdict, Verified};
use std::sync::Arc;

pub(crate) struct Delivery {
    pub(crate) source: Arc<SourceState>,
    pub(crate) parts: Parts,
    pub(crate) body: HeldBody,
    pub(crate) path_token: Option<String>,
    pub(crate) received_at: Timestamp,
    pub(crate) tally: Tally,
}

impl Delivery {
    /// The answer. Whoever drops this before it is done loses the delivery unanswered, never half kept.
    pub(crate) async fn take(self) -> Response {
        let verified = match self.verify() {
            Ok(verified) => verified,
            Err(rejection) => return self.tally.refuse(&Refusal::Rejected(rejection)),
        };
        let message = Arc::new(self.message(verified));
        match self.tally.intake.keep(&message).await {
            Ok(kept) => self.tally.accept(&self.source, &message, &kept),
            Err(refusal) => self.tally.refuse(&refusal),
        }
    }

    fn verify(&self) -> Result<Verified, Rejection> {
        let headers: Vec<_> = self.parts.headers.iter().map(|(n, v)| (n.as_str(), v.as_bytes())).collect();
        let settings = &self.source.settings;
        let request = Request {
            method: self.parts.method.as_str(),
            url: settings.public_url.as_deref(),
            query: self.query(),
            path_token: self.path_token.as_deref(),
            headers: &headers,
            body: &self.body.bytes,
        };
        match settings.verifier.verify(&request, unix_time(self.received_at)) {
            Verdict::Valid(verified) => Ok(verified),
            Verdict::Invalid(rejection) => Err(rejection),
        }
    }

    /// The event as it travels. What its id and type cannot be read from is not refused: a worker parks it.
    fn message(&self, verified: Verified) -> Message {
        let source = &self.source.settings.model;
        let recorded = self.source.recorder.record(&self.parts.headers, self.query(), self.path_token.as_deref());
        let parsed = self.source.identity_reads_body.then(|| json::parse(&self.body.bytes).ok()).flatten();
        let document = Document { json: parsed.as_ref(), headers: &recorded.headers, query: &recorded.query };
        let digest = Digest::of(&self.body.bytes);
        let identity = prepare::identify(source, &document, &digest);
        let facts = FactsJson::encode(&Facts {
            trace_id: self.tally.trace().to_owned(),
            content_type: recorded.content_type,
            headers: recorded.headers,
            query: recorded.query,
            scheme: self.source.settings.scheme_name.clone(),
            secret_index: verified.secret_index,
        });
        Message {
            id: EventUuid::generate(self.received_at, self.tally.intake.entropy.as_ref()),
            source: source.name.clone(),
            event_id: identity.event_id.unwrap_or_else(|_| Message::fallback_event_id(&digest)),
            event_type: identity.event_type.ok(),
            received_at: self.received_at,
            generation: 0,
            attempts: 0,
            digest,
            facts,
            body: self.body.bytes.clone(),
        }
    }

    fn query(&self) -> &str {
        self.parts.uri.query().unwrap_or_default()
    }
}
