//! The sender's side, for `oncefold send`, the demo and tests: what a provider would put on a delivery.

use crate::encoding;
use crate::mac::{HmacAlgorithm, KeyedMac};
use crate::request::Request;
use crate::scheme::Scheme;
use crate::schemes::hmac::{HmacScheme, KeyEncoding, decode_key};
use crate::schemes::signed_time::TimestampPlace;
use crate::schemes::standard_webhooks::{HeaderFamily, StandardWebhooks};
use crate::schemes::token::{TokenPlace, TokenScheme};
use crate::schemes::twilio::TwilioScheme;
use crate::schemes::{basic, stripe, twilio};
use crate::secret::{KeyError, PUBLIC_KEY_PREFIX, Secret};
use crate::time::UnixTime;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use sha2::{Digest as _, Sha256};
use std::fmt;

/// What a scheme adds to a request so that it verifies. Holds the secret itself for `token` and `basic`, so `Debug`
/// names places only.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Signed {
    /// Headers to add.
    pub headers: Vec<(String, String)>,
    /// An encoded `name=value` to add to the query.
    pub query: Option<String>,
    /// The token to append to the path, not encoded.
    pub path_token: Option<String>,
}

impl Signed {
    fn with_header(name: impl Into<String>, value: impl Into<String>) -> Self {
        Self { headers: vec![(name.into(), value.into())], ..Self::default() }
    }
}

impl fmt::Debug for Signed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.headers.iter().map(|(name, _)| name).collect();
        f.debug_struct("Signed").field("headers", &names).finish_non_exhaustive()
    }
}

/// Why a request could not be signed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SignError {
    /// The secret cannot be used.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// A public key verifies and cannot sign.
    #[error("a public key (whpk_…) cannot sign; add a whsec_… secret to the source to send test events")]
    PublicKey,
    /// Only the provider can sign: with a private key, or inside the body.
    #[error("cannot sign for scheme {0:?}: only the provider holds what it takes; send a captured delivery instead")]
    ProviderOnly(&'static str),
    /// The scheme signs something the request does not have.
    #[error("cannot sign: {0}")]
    Incomplete(String),
}

impl Scheme {
    /// Signs a request as the provider would, at the given time. `id` becomes the message id where the scheme signs
    /// one. For `none` nothing is added; the secret is not looked at.
    ///
    /// # Errors
    /// [`SignError`], where the secret cannot sign or the request lacks what the scheme signs.
    pub fn sign(&self, secret: &Secret, id: &str, req: &Request<'_>, now: UnixTime) -> Result<Signed, SignError> {
        match self {
            Self::Hmac(scheme) => hmac(scheme, secret, req, now),
            Self::StandardWebhooks(scheme) => standard_webhooks(*scheme, secret, id, req, now),
            Self::Stripe(_) => {
                let timestamp = now.as_secs().to_string();
                let key = KeyedMac::keyed(HmacAlgorithm::Sha256, &decode_key(0, secret, KeyEncoding::Literal)?);
                let tag = key.over(&[timestamp.as_bytes(), b".", req.body]);
                Ok(Signed::with_header(stripe::HEADER, format!("t={timestamp},v1={}", hex::encode(tag.as_slice()))))
            }
            Self::Twilio(scheme) => twilio(*scheme, secret, req),
            Self::Ed25519(_) | Self::Adyen | Self::PayPal(_) | Self::Sns(_) => {
                Err(SignError::ProviderOnly(self.name()))
            }
            Self::Token(scheme) => Ok(token(scheme, secret.text())),
            Self::Basic => {
                let encoded = encoding::to_base64(secret.text().as_bytes());
                Ok(Signed::with_header(basic::HEADER, format!("Basic {encoded}")))
            }
            Self::None => Ok(Signed::default()),
        }
    }
}

fn hmac(scheme: &HmacScheme, secret: &Secret, req: &Request<'_>, now: UnixTime) -> Result<Signed, SignError> {
    let time = scheme.time.as_ref().map(|time| (&time.place, time.written(now)));
    let timestamp = time.as_ref().map_or("", |(_, written)| written);
    let mut mac = KeyedMac::keyed(scheme.algorithm, &decode_key(0, secret, scheme.key_encoding)?);
    let fed = scheme.signed.feed(req, timestamp.as_bytes(), |bytes| mac.update(bytes));
    fed.map_err(|rejection| SignError::Incomplete(rejection.detail))?;
    let place = &scheme.signature;
    let signature = format!("{}{}", place.prefix, place.encoding.encode(mac.finish().as_slice()));
    let value = match (&place.fields, &time) {
        (None, _) => signature,
        (Some(fields), Some((TimestampPlace::Field(name), written))) => {
            format!("{name}={written}{}{}={signature}", fields.separator, fields.signature)
        }
        (Some(fields), _) => format!("{}={signature}", fields.signature),
    };
    let mut signed = Signed::with_header(place.name(req), value);
    if let Some((TimestampPlace::Header(name), written)) = time {
        signed.headers.push((name.clone(), written));
    }
    Ok(signed)
}

/// A body that is no form is bound by its hash in the URL.
fn twilio(scheme: TwilioScheme, secret: &Secret, req: &Request<'_>) -> Result<Signed, SignError> {
    let incomplete = |rejection: crate::Rejection| SignError::Incomplete(rejection.detail);
    let algorithm = scheme.algorithm.unwrap_or(HmacAlgorithm::Sha1);
    let url =
        req.url.ok_or_else(|| SignError::Incomplete("the scheme signs the public URL; state `url`".to_owned()))?;
    let (url, query, parameters) = match twilio::signed_parameters(req, req.query) {
        Ok(parameters) => (url.to_owned(), None, parameters),
        Err(rejection) if rejection.reason == crate::RejectionReason::BodyMismatch => {
            return Err(incomplete(rejection));
        }
        Err(_) => {
            let query = format!("{}={}", twilio::BODY_HASH, hex::encode(Sha256::digest(req.body)));
            (format!("{url}{}{query}", if url.contains('?') { '&' } else { '?' }), Some(query), Vec::new())
        }
    };
    let key = KeyedMac::keyed(algorithm, &decode_key(0, secret, KeyEncoding::Literal)?);
    let tag = twilio::tag(&key, &url, &parameters);
    let mut signed = Signed::with_header(twilio::HEADER, encoding::to_base64(tag.as_slice()));
    if algorithm == HmacAlgorithm::Sha256 {
        signed.headers.push((twilio::SETTINGS_HEADER.to_owned(), "key=oncefold,algorithm=HMAC_SHA256".to_owned()));
    }
    signed.query = query;
    Ok(signed)
}

fn standard_webhooks(
    scheme: StandardWebhooks,
    secret: &Secret,
    id: &str,
    req: &Request<'_>,
    now: UnixTime,
) -> Result<Signed, SignError> {
    if secret.text().starts_with(PUBLIC_KEY_PREFIX) {
        return Err(SignError::PublicKey);
    }
    if id.is_empty() || id.contains('.') {
        return Err(SignError::Incomplete("the message id is empty or contains a dot".to_owned()));
    }
    let timestamp = now.as_secs().to_string();
    let key = KeyedMac::keyed(HmacAlgorithm::Sha256, &scheme.shared_key(0, secret)?);
    let tag = key.over(&[id.as_bytes(), b".", timestamp.as_bytes(), b".", req.body]);
    let signature = format!("v1,{}", encoding::to_base64(tag.as_slice()));
    let family = match scheme.headers {
        HeaderFamily::SvixThenWebhook => "svix",
        HeaderFamily::Webhook => "webhook",
    };
    let fields = [("id", id.to_owned()), ("timestamp", timestamp), ("signature", signature)];
    let headers = fields.map(|(field, value)| (format!("{family}-{field}"), value)).into();
    Ok(Signed { headers, ..Signed::default() })
}

fn token(scheme: &TokenScheme, secret: &str) -> Signed {
    let value = format!("{}{secret}", scheme.prefix);
    let encoded = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
    match &scheme.place {
        TokenPlace::Header(name) => Signed::with_header(name, value),
        TokenPlace::Query(name) => {
            Signed { query: Some(format!("{}={}", encoded(name), encoded(&value))), ..Signed::default() }
        }
        TokenPlace::Path => Signed { path_token: Some(value), ..Signed::default() },
    }
}

#[cfg(test)]
#[path = "signing_tests.rs"]
mod tests;
