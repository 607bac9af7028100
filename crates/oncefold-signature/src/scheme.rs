//! A source's scheme as settings, and as a verifier that is ready to run.

use crate::request::Request;
use crate::schemes::hmac::HmacScheme;
use crate::schemes::standard_webhooks::StandardWebhooks;
use crate::schemes::stripe::StripeScheme;
use crate::schemes::token::{TokenPlace, TokenScheme};
use crate::schemes::{basic, none};
use crate::secret::{KeyError, Secret};
use crate::time::UnixTime;
use crate::verdict::{Rejection, Verdict, Verified};
use std::fmt;
use std::sync::Arc;

/// How a source's deliveries are verified: `scheme = …` under `[sources.X.verify]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scheme {
    /// `hmac`: an HMAC over a template, in a header.
    Hmac(HmacScheme),
    /// `standard-webhooks`, and Svix.
    StandardWebhooks(StandardWebhooks),
    /// `stripe`.
    Stripe(StripeScheme),
    /// `token`: the secret itself in a header, the query or the path.
    Token(TokenScheme),
    /// `basic`: `Authorization: Basic`, the secret being `user:password`.
    Basic,
    /// `none`: everything is accepted.
    None,
}

impl Scheme {
    /// Decodes every key once and checks the settings.
    ///
    /// # Errors
    /// [`KeyError`] for the first secret or setting that cannot be used.
    pub fn prepare(&self, secrets: &[Secret]) -> Result<Verifier, KeyError> {
        match self {
            Self::Hmac(scheme) => scheme.prepare(secrets),
            Self::StandardWebhooks(scheme) => scheme.prepare(secrets),
            Self::Stripe(scheme) => scheme.prepare(secrets),
            Self::Token(scheme) => scheme.prepare(secrets),
            Self::Basic => basic::prepare(secrets),
            Self::None => none::prepare(secrets),
        }
    }

    /// Where a delivery carries the secret itself: this place must be redacted wherever requests are kept or shown.
    pub fn credential_place(&self) -> Option<TokenPlace> {
        match self {
            Self::Token(scheme) => Some(scheme.place.clone()),
            Self::Basic => Some(TokenPlace::Header(basic::HEADER.to_owned())),
            Self::Hmac(_) | Self::StandardWebhooks(_) | Self::Stripe(_) | Self::None => None,
        }
    }
}

/// A scheme with its keys set up.
pub(crate) trait Prepared: Send + Sync {
    /// The verdict; runs for every delivery.
    fn verify(&self, req: &Request<'_>, now: UnixTime) -> Result<Verified, Rejection>;

    /// What trying other readings of the request found out; expensive, for the operator only.
    fn diagnose(&self, req: &Request<'_>, now: UnixTime, rejection: &Rejection) -> Vec<String>;
}

/// Verifies deliveries of one source. Cheap to clone; shows nothing in `Debug`.
#[derive(Clone)]
pub struct Verifier {
    prepared: Arc<dyn Prepared>,
    warnings: Arc<[String]>,
}

impl Verifier {
    pub(crate) fn of(prepared: impl Prepared + 'static, warnings: Vec<String>) -> Self {
        Self { prepared: Arc::new(prepared), warnings: warnings.into() }
    }

    /// Whether the delivery may be processed, at the given time.
    pub fn verify(&self, req: &Request<'_>, now: UnixTime) -> Verdict {
        self.prepared.verify(req, now).into()
    }

    /// Explains a rejection that [`Verifier::verify`] gave for the same request and time: its detail, then one line for each
    /// thing that trying other keys, encodings and bodies found out. Costs many hashes of the body: never call it for
    /// every rejected delivery. Holds no secret and no expected signature.
    pub fn diagnose(&self, req: &Request<'_>, now: UnixTime, rejection: &Rejection) -> String {
        let mut lines = vec![rejection.detail.clone()];
        lines.extend(self.prepared.diagnose(req, now, rejection));
        lines.join("\n")
    }

    /// What is allowed but unwise about the secrets.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }
}

impl fmt::Debug for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Verifier(…)")
    }
}

#[cfg(test)]
#[path = "scheme_tests.rs"]
mod tests;
