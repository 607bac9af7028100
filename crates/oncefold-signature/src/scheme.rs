//! A source's scheme as settings, and as a verifier that is ready to run.

use crate::certificate::{CertificateRequest, SigningCertificate};
use crate::request::Request;
use crate::schemes::ed25519::Ed25519Scheme;
use crate::schemes::hmac::HmacScheme;
use crate::schemes::paypal::PayPalScheme;
use crate::schemes::signed_time::TimestampPlace;
use crate::schemes::sns::SnsScheme;
use crate::schemes::standard_webhooks::StandardWebhooks;
use crate::schemes::stripe::StripeScheme;
use crate::schemes::token::{TokenPlace, TokenScheme};
use crate::schemes::twilio::TwilioScheme;
use crate::schemes::{adyen, basic, none};
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
    /// `ed25519`: a signature over a template, that a public key fits.
    Ed25519(Ed25519Scheme),
    /// `twilio`.
    Twilio(TwilioScheme),
    /// `adyen`: standard notifications, signed item by item.
    Adyen,
    /// `paypal`.
    PayPal(PayPalScheme),
    /// `sns`: Amazon SNS.
    Sns(SnsScheme),
    /// `token`: the secret itself in a header, the query or the path.
    Token(TokenScheme),
    /// `basic`: `Authorization: Basic`, the secret being `user:password`.
    Basic,
    /// `none`: everything is accepted.
    None,
}

impl Scheme {
    /// The name in the config.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Hmac(_) => "hmac",
            Self::StandardWebhooks(_) => "standard-webhooks",
            Self::Stripe(_) => "stripe",
            Self::Ed25519(_) => "ed25519",
            Self::Twilio(_) => "twilio",
            Self::Adyen => "adyen",
            Self::PayPal(_) => "paypal",
            Self::Sns(_) => "sns",
            Self::Token(_) => "token",
            Self::Basic => "basic",
            Self::None => "none",
        }
    }

    /// Whether the source has to have secrets; the others take none.
    pub const fn takes_secrets(&self) -> bool {
        !matches!(self, Self::Sns(_) | Self::None)
    }

    /// Whether the public URL is signed, so that the source has to state it.
    pub fn signs_url(&self) -> bool {
        match self {
            Self::Hmac(scheme) => scheme.signed.signs_url(),
            Self::Ed25519(scheme) => scheme.signed.signs_url(),
            Self::Twilio(_) => true,
            _ => false,
        }
    }

    /// The header that carries the time of the attempt, which must never order events.
    pub fn timestamp_header(&self) -> Option<&str> {
        let time = match self {
            Self::Hmac(scheme) => scheme.time.as_ref(),
            Self::Ed25519(scheme) => scheme.time.as_ref(),
            _ => None,
        };
        match &time?.place {
            TimestampPlace::Header(name) => Some(name),
            TimestampPlace::Field(_) | TimestampPlace::Body(_) => None,
        }
    }

    /// Decodes every key once and checks the settings.
    ///
    /// # Errors
    /// [`KeyError`] for the first secret or setting that cannot be used.
    pub fn prepare(&self, secrets: &[Secret]) -> Result<Verifier, KeyError> {
        match self {
            Self::Hmac(scheme) => scheme.prepare(secrets),
            Self::StandardWebhooks(scheme) => scheme.prepare(secrets),
            Self::Stripe(scheme) => scheme.prepare(secrets),
            Self::Ed25519(scheme) => scheme.prepare(secrets),
            Self::Twilio(scheme) => scheme.prepare(secrets),
            Self::Adyen => adyen::prepare(secrets),
            Self::PayPal(scheme) => scheme.prepare(secrets),
            Self::Sns(scheme) => scheme.prepare(secrets),
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
            _ => None,
        }
    }
}

/// A scheme with its keys set up.
pub(crate) trait Prepared: Send + Sync {
    /// The verdict; runs for every delivery.
    fn verify(&self, req: &Request<'_>, now: UnixTime) -> Result<Verified, Rejection>;

    /// What trying other readings of the request found out; expensive, for the operator only.
    fn diagnose(&self, req: &Request<'_>, now: UnixTime, rejection: &Rejection) -> Vec<String>;

    /// A verdict for each event of the delivery.
    fn verify_items<'a>(&self, req: &Request<'a>, now: UnixTime) -> Result<Vec<Item<'a>>, Rejection> {
        Ok(vec![Item { body: req.body, verdict: self.verify(req, now).into() }])
    }

    /// The certificate without which there is no verdict.
    fn certificate_needed<'a>(&self, _req: &Request<'a>) -> Option<CertificateRequest<'a>> {
        None
    }

    /// The verdict with a certificate at hand.
    fn verify_with(
        &self,
        req: &Request<'_>,
        now: UnixTime,
        _certificate: &SigningCertificate,
    ) -> Result<Verified, Rejection> {
        self.verify(req, now)
    }
}

/// One event of a delivery that carries several, each with a signature of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item<'a> {
    /// The event's exact bytes.
    pub body: &'a [u8],
    /// Whether it may be processed.
    pub verdict: Verdict,
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

    /// Likewise for each event, for schemes that sign events one by one (`adyen`); for others the delivery is one event.
    /// [`Verifier::verify`] gives [`Verdict::Valid`] exactly where every item here is.
    ///
    /// # Errors
    /// The rejection of the whole, where its events cannot be told apart.
    pub fn verify_items<'a>(&self, req: &Request<'a>, now: UnixTime) -> Result<Vec<Item<'a>>, Rejection> {
        self.prepared.verify_items(req, now)
    }

    /// The certificate that the delivery names, where the source states none and the URL is the provider's: fetch it,
    /// check it with [`SigningCertificate::chained`], then ask [`Verifier::verify_with`]. Otherwise [`Verifier::verify`]
    /// has the verdict. The URL comes from a request that nothing has verified yet.
    pub fn certificate_needed<'a>(&self, req: &Request<'a>) -> Option<CertificateRequest<'a>> {
        self.prepared.certificate_needed(req)
    }

    /// [`Verifier::verify`] with the certificate that [`Verifier::certificate_needed`] asked for.
    pub fn verify_with(&self, req: &Request<'_>, now: UnixTime, certificate: &SigningCertificate) -> Verdict {
        self.prepared.verify_with(req, now, certificate).into()
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
