//! Scheme `hmac`: an HMAC over a template of the request, in one header. Most providers are settings of it.

pub use crate::schemes::signed_template::{SignedTemplate, TemplateError};

use crate::diagnosis::{self, Trial};
use crate::encoding::{self, Presented};
use crate::mac::{HmacAlgorithm, KeyedMac};
use crate::request::Request;
use crate::scheme::{Prepared, Verifier};
use crate::secret::{KeyError, Secret, refuse_asymmetric, require_some, short_key_warning};
use crate::time::{UnixTime, check_tolerance, parse_millis, parse_seconds};
use crate::verdict::{Rejection, RejectionReason, Verified};
use std::str::FromStr;

/// How a signature is written in its header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SignatureEncoding {
    /// Lower-case hex.
    #[default]
    Hex,
    /// Base64, standard alphabet, padded.
    Base64,
}

impl SignatureEncoding {
    /// The name in the config.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Hex => "hex",
            Self::Base64 => "base64",
        }
    }

    pub(crate) fn encode(self, signature: &[u8]) -> String {
        match self {
            Self::Hex => hex::encode(signature),
            Self::Base64 => encoding::to_base64(signature),
        }
    }

    fn decode(self, text: &[u8], len: usize) -> Option<Presented> {
        match self {
            Self::Hex => encoding::signature_from_hex(text, len),
            Self::Base64 => encoding::signature_from_base64(text, len),
        }
    }
}

impl FromStr for SignatureEncoding {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "hex" => Ok(Self::Hex),
            "base64" => Ok(Self::Base64),
            other => Err(format!("unknown signature encoding {other:?}; one of hex, base64")),
        }
    }
}

/// How a secret's text becomes key bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum KeyEncoding {
    /// The text itself, any prefix included.
    #[default]
    Literal,
    /// Base64, standard alphabet.
    Base64,
    /// Hex, either case.
    Hex,
}

impl KeyEncoding {
    /// The name in the config.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Literal => "literal",
            Self::Base64 => "base64",
            Self::Hex => "hex",
        }
    }

    pub(crate) fn decode(self, text: &str) -> Option<Vec<u8>> {
        match self {
            Self::Literal => Some(text.as_bytes().to_vec()),
            Self::Base64 => encoding::key_from_base64(text),
            Self::Hex => hex::decode(text).ok(),
        }
    }
}

impl FromStr for KeyEncoding {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "literal" => Ok(Self::Literal),
            "base64" => Ok(Self::Base64),
            "hex" => Ok(Self::Hex),
            other => Err(format!("unknown key encoding {other:?}; one of literal, base64, hex")),
        }
    }
}

/// What the timestamp header holds. It is signed as its raw text either way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TimestampFormat {
    /// Unix seconds, 1 to 12 plain digits.
    #[default]
    UnixSeconds,
    /// Unix milliseconds, 1 to 15 plain digits.
    UnixMillis,
}

/// Settings of scheme `hmac`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HmacScheme {
    /// The hash function.
    pub algorithm: HmacAlgorithm,
    /// The header with the signature.
    pub header: String,
    /// How the signature is written.
    pub encoding: SignatureEncoding,
    /// What stands before the signature, such as `sha256=`; has to be there. Empty for nothing.
    pub prefix: String,
    /// How secrets become keys.
    pub key_encoding: KeyEncoding,
    /// What is signed.
    pub signed: SignedTemplate,
    /// The header whose text `{timestamp}` stands for; set exactly when the template has `{timestamp}`.
    pub timestamp_header: Option<String>,
    /// How the timestamp is read.
    pub timestamp_format: TimestampFormat,
    /// How far the timestamp may be from now, in seconds, past and future alike, both ends included.
    pub tolerance_s: u32,
}

impl HmacScheme {
    /// Tolerance where the provider names none, in seconds.
    pub const DEFAULT_TOLERANCE_S: u32 = 300;

    /// Hex HMAC-SHA-256 of the body in this header, literal key: what is left to state is what differs.
    pub fn over_body(header: impl Into<String>) -> Self {
        Self {
            algorithm: HmacAlgorithm::Sha256,
            header: header.into(),
            encoding: SignatureEncoding::Hex,
            prefix: String::new(),
            key_encoding: KeyEncoding::Literal,
            signed: SignedTemplate::body_only(),
            timestamp_header: None,
            timestamp_format: TimestampFormat::UnixSeconds,
            tolerance_s: Self::DEFAULT_TOLERANCE_S,
        }
    }

    fn check_settings(&self) -> Result<(), KeyError> {
        if self.header.is_empty() {
            return Err(KeyError::settings("scheme \"hmac\" needs `header`, the header with the signature"));
        }
        match (self.signed.signs_timestamp(), &self.timestamp_header) {
            (true, None) => Err(KeyError::settings("`signed` has {timestamp}; state `timestamp_header`")),
            (false, Some(_)) => Err(KeyError::settings(
                "`timestamp_header` is not signed, so it would not stop a replay; put {timestamp} into `signed` or remove it",
            )),
            _ => Ok(()),
        }
    }

    pub(crate) fn prepare(&self, secrets: &[Secret]) -> Result<Verifier, KeyError> {
        self.check_settings()?;
        require_some(secrets)?;
        let (mut keys, mut warnings) = (Vec::new(), Vec::new());
        for (index, secret) in secrets.iter().enumerate() {
            let key = decode_key(index, secret, self.key_encoding)?;
            warnings.extend(short_key_warning(index, key.len()));
            keys.push(KeyedMac::keyed(self.algorithm, &key));
        }
        Ok(Verifier::of(PreparedHmac { scheme: self.clone(), keys, secrets: secrets.to_vec() }, warnings))
    }
}

/// The key bytes of a shared secret; never those of a public or private key, never none.
pub(crate) fn decode_key(index: usize, secret: &Secret, encoding: KeyEncoding) -> Result<Vec<u8>, KeyError> {
    refuse_asymmetric(index, secret)?;
    let name = encoding.as_str();
    let key = encoding
        .decode(secret.text())
        .ok_or_else(|| KeyError::at(index, format!("is not {name}; check it, or set another `key_encoding`")))?;
    if key.is_empty() {
        return Err(KeyError::at(index, format!("is empty once decoded as {name}")));
    }
    Ok(key)
}

struct PreparedHmac {
    scheme: HmacScheme,
    keys: Vec<KeyedMac>,
    secrets: Vec<Secret>,
}

impl PreparedHmac {
    /// The signature's text behind the prefix.
    fn signature_text<'a>(&self, req: &Request<'a>) -> Result<&'a [u8], Rejection> {
        let value = req.sole_header(&self.scheme.header)?;
        value.strip_prefix(self.scheme.prefix.as_bytes()).ok_or_else(|| {
            let detail = format!("header {} does not start with {:?}", self.scheme.header, self.scheme.prefix);
            Rejection::of(RejectionReason::MalformedSignature, detail)
        })
    }

    fn timestamp<'a>(&self, req: &Request<'a>) -> Result<Option<(&'a [u8], i64)>, Rejection> {
        let Some(header) = &self.scheme.timestamp_header else { return Ok(None) };
        let text = req.sole_header(header)?;
        let field = format!("header {header}");
        let seconds = match self.scheme.timestamp_format {
            TimestampFormat::UnixSeconds => parse_seconds(&field, text)?,
            TimestampFormat::UnixMillis => parse_millis(&field, text)?.div_euclid(1000),
        };
        Ok(Some((text, seconds)))
    }

    fn matches(
        &self,
        key: &KeyedMac,
        req: &Request<'_>,
        timestamp: &[u8],
        signature: &[u8],
    ) -> Result<bool, Rejection> {
        let mut mac = key.clone();
        self.scheme.signed.feed(&mut mac, req, timestamp)?;
        Ok(mac.finish().equals(signature))
    }
}

impl Prepared for PreparedHmac {
    fn verify(&self, req: &Request<'_>, now: UnixTime) -> Result<Verified, Rejection> {
        let text = self.signature_text(req)?;
        let length = self.scheme.algorithm.tag_len();
        let signature = self.scheme.encoding.decode(text, length).ok_or_else(|| {
            let expected = format!("{} of {length} bytes", self.scheme.encoding.as_str());
            diagnosis::malformed_signature(&format!("header {}", self.scheme.header), text, &expected)
        })?;
        let timestamp = self.timestamp(req)?;
        if let Some((_, seconds)) = timestamp {
            check_tolerance(seconds, now, self.scheme.tolerance_s)?;
        }
        let raw_timestamp = timestamp.map_or(&b""[..], |(text, _)| text);
        for (index, key) in self.keys.iter().enumerate() {
            if self.matches(key, req, raw_timestamp, signature.as_slice())? {
                return Ok(Verified { secret_index: Some(index), signed_at_s: timestamp.map(|(_, seconds)| seconds) });
            }
        }
        Err(diagnosis::no_match(&format!("the signature in header {}", self.scheme.header), self.keys.len()))
    }

    fn diagnose(&self, req: &Request<'_>, now: UnixTime, rejection: &Rejection) -> Vec<String> {
        let Ok(value) = req.sole_header(&self.scheme.header) else {
            return diagnosis::about_header(&self.scheme.header, req);
        };
        let text = value.strip_prefix(self.scheme.prefix.as_bytes()).unwrap_or(value);
        let timestamp = self.scheme.timestamp_header.as_deref().and_then(|name| req.header_values(name).next());
        let signatures = encoding::readings(text);
        let fits = |_: usize, key: &[u8], req: &Request<'_>| {
            let key = KeyedMac::keyed(self.scheme.algorithm, key);
            signatures
                .iter()
                .any(|(_, bytes)| self.matches(&key, req, timestamp.unwrap_or_default(), bytes).unwrap_or(false))
        };
        let trial = Trial { secrets: &self.secrets, configured: self.scheme.key_encoding, fits: &fits };
        trial.explain(req, rejection).into_iter().chain(diagnosis::about_clock(timestamp, now, rejection)).collect()
    }
}

#[cfg(test)]
#[path = "hmac_tests.rs"]
mod tests;
