//! A delivery that was received whole: a handshake that is answered, or verified over its raw bytes, made durable, answered.

use crate::answer::{Refusal, Response};
use crate::body::HeldBody;
use crate::certificates::NoCertificate;
use crate::events::KeptEvent;
use crate::intake::{SourceState, Tally, unix_time};
use crate::outbound;
use crate::settings::SourceKeys;
use http::request::Parts;
use oncefold_core::Timestamp;
use oncefold_signature::{Answer, Handshake, Rejection, RejectionReason, Reply, Request, Verdict, Verified};
use std::sync::Arc;

pub(crate) struct Delivery {
    pub(crate) source: Arc<SourceState>,
    pub(crate) parts: Parts,
    pub(crate) body: HeldBody,
    pub(crate) path_token: Option<String>,
    pub(crate) received_at: Timestamp,
    pub(crate) tally: Tally,
}

/// How a delivery that is not refused ends.
enum Taken {
    Handshake(Answer),
    Kept(Vec<KeptEvent>),
}

impl Delivery {
    /// The answer. Whoever drops this before it is done loses the delivery unanswered, never half kept.
    pub(crate) async fn take(self) -> Response {
        match self.taken().await {
            Ok(Taken::Handshake(answer)) => self.tally.shake(&answer),
            Ok(Taken::Kept(events)) => self.tally.accept(&self.source, &events),
            Err(refusal) => {
                if let Refusal::Rejected(rejection) = &refusal {
                    self.log_rejection(rejection);
                }
                self.tally.refuse(&refusal)
            }
        }
    }

    async fn taken(&self) -> Result<Taken, Refusal> {
        let keys = self.source.keys();
        let headers: Vec<_> = self.parts.headers.iter().map(|(n, v)| (n.as_str(), v.as_bytes())).collect();
        let request = Request {
            method: self.parts.method.as_str(),
            url: self.source.settings.public_url.as_deref(),
            query: self.query(),
            path_token: self.path_token.as_deref(),
            headers: &headers,
            body: &self.body.bytes,
        };
        if let Some(answer) = keys.handshake.as_ref().and_then(|handshake| handshake.unsigned(&request)) {
            return Ok(Taken::Handshake(answer));
        }
        // A method that only handshakes use: of those that are signed nothing can be said before they are verified.
        let takes_method = self.source.settings.methods.contains(&self.parts.method);
        if !takes_method && keys.handshake != Some(Handshake::Okta) {
            return Err(Refusal::WrongMethod);
        }
        let items = self.verify(&keys, &request).await?;
        self.tally.count_secrets(items.iter().filter_map(|(_, verified)| verified.secret_index));
        if let Some(answer) = self.handshake(&keys, &request, &items) {
            return Ok(Taken::Handshake(answer));
        }
        if !takes_method {
            return Err(Refusal::WrongMethod);
        }
        self.keep(&keys, items).await.map(Taken::Kept)
    }

    /// Every item of the delivery with what verified it. One that does not verify refuses them all: the delivery comes
    /// again as a whole, and what was left out of it would be lost.
    async fn verify<'a>(&self, keys: &SourceKeys, request: &Request<'a>) -> Result<Vec<(&'a [u8], Verified)>, Refusal> {
        let now = unix_time(self.received_at);
        if let Some(needed) = keys.verifier.certificate_needed(request) {
            let certificate = self.tally.intake.certificates.get(&needed, now).await.map_err(|error| match error {
                NoCertificate::Away(_) => Refusal::NoCertificate(error),
                NoCertificate::Untrusted(detail) => {
                    Refusal::Rejected(Rejection { reason: RejectionReason::UntrustedCertificate, detail })
                }
            })?;
            return match keys.verifier.verify_with(request, now, &certificate) {
                Verdict::Valid(verified) => Ok(vec![(request.body, verified)]),
                Verdict::Invalid(rejection) => Err(Refusal::Rejected(rejection)),
            };
        }
        let items = keys.verifier.verify_items(request, now).map_err(Refusal::Rejected)?;
        let count = items.len();
        let verified = items.into_iter().enumerate().map(|(at, item)| match item.verdict {
            Verdict::Valid(verified) => Ok((item.body, verified)),
            Verdict::Invalid(rejection) if count == 1 => Err(Refusal::Rejected(rejection)),
            Verdict::Invalid(Rejection { reason, detail }) => {
                let detail = format!("item {} of {count}: {detail}", at + 1);
                Err(Refusal::Rejected(Rejection { reason, detail }))
            }
        });
        verified.collect()
    }

    /// The answer, where the verified request is a handshake.
    fn handshake(&self, keys: &SourceKeys, request: &Request<'_>, items: &[(&[u8], Verified)]) -> Option<Answer> {
        let secret = items.first().and_then(|(_, verified)| keys.secrets.get(verified.secret_index?));
        match keys.handshake.as_ref()?.signed(request, secret)? {
            Reply::Answer(answer) => Some(answer),
            Reply::Confirm { url, answer } => {
                outbound::confirm(
                    &self.tally.intake,
                    self.source.settings.model.name.as_str(),
                    url,
                    self.tally.trace(),
                );
                Some(answer)
            }
        }
    }

    pub(crate) fn query(&self) -> &str {
        self.parts.uri.query().unwrap_or_default()
    }
}
