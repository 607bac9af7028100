//! The sender's side, for `oncefold send`, the demo and tests: what a provider would put on a delivery.

use crate::encoding;
use crate::mac::{HmacAlgorithm, KeyedMac};
use crate::request::Request;
use crate::scheme::Scheme;
use crate::schemes::hmac::{HmacScheme, KeyEncoding, TimestampFormat, decode_key};
use crate::schemes::standard_webhooks::{HeaderFamily, StandardWebhooks};
use crate::schemes::token::{TokenPlace, TokenScheme};
use crate::schemes::{basic, stripe};
use crate::secret::{KeyError, PUBLIC_KEY_PREFIX, Secret};
use crate::time::UnixTime;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
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
    let timestamp = match scheme.timestamp_format {
        TimestampFormat::UnixSeconds => now.as_secs(),
        TimestampFormat::UnixMillis => now.as_micros().div_euclid(1000),
    }
    .to_string();
    let mut mac = KeyedMac::keyed(scheme.algorithm, &decode_key(0, secret, scheme.key_encoding)?);
    let fed = scheme.signed.feed(&mut mac, req, timestamp.as_bytes());
    fed.map_err(|rejection| SignError::Incomplete(rejection.detail))?;
    let signature = scheme.encoding.encode(mac.finish().as_slice());
    let mut signed = Signed::with_header(&scheme.header, format!("{}{signature}", scheme.prefix));
    signed.headers.extend(scheme.timestamp_header.clone().map(|name| (name, timestamp)));
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
