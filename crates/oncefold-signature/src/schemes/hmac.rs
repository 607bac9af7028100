//! Scheme `hmac`: an HMAC over a template of the request, in one header. Most providers are settings of it.

use crate::diagnosis::{self, Trial};
use crate::encoding::{self, Presented};
use crate::mac::{HmacAlgorithm, KeyedMac, Tag};
use crate::request::Request;
use crate::scheme::{Prepared, Verifier};
use crate::schemes::signature_place::SignaturePlace;
use crate::schemes::signed_template::SignedTemplate;
use crate::schemes::signed_time::{SignedTime, TimestampPlace};
use crate::secret::{KeyError, Secret, refuse_asymmetric, require_some, short_key_warning};
use crate::time::UnixTime;
use crate::verdict::{Rejection, RejectionReason, Verified};
use std::str::FromStr;

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
    /// The text with HTML entities resolved, as WordPress does before it signs.
    Html,
}

impl KeyEncoding {
    /// The name in the config.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Literal => "literal",
            Self::Base64 => "base64",
            Self::Hex => "hex",
            Self::Html => "html",
        }
    }

    pub(crate) fn decode(self, text: &str) -> Option<Vec<u8>> {
        match self {
            Self::Literal => Some(text.as_bytes().to_vec()),
            Self::Base64 => encoding::key_from_base64(text),
            Self::Hex => hex::decode(text).ok(),
            Self::Html => Some(encoding::html_unescaped(text).into_bytes()),
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
            "html" => Ok(Self::Html),
            other => Err(format!("unknown key encoding {other:?}; one of literal, base64, hex, html")),
        }
    }
}

/// Settings of scheme `hmac`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HmacScheme {
    /// The hash function.
    pub algorithm: HmacAlgorithm,
    /// Where the signature stands.
    pub signature: SignaturePlace,
    /// How secrets become keys.
    pub key_encoding: KeyEncoding,
    /// What is signed.
    pub signed: SignedTemplate,
    /// The time that is signed; outside the body exactly when the template has `{timestamp}`.
    pub time: Option<SignedTime>,
    /// Whether a delivery may have no body. Where only the body is signed, the signature of an empty one fits every
    /// empty one.
    pub empty_body: bool,
}

impl HmacScheme {
    /// HMAC-SHA-256 over the body with the literal secret, lower-case hex in the given header.
    pub fn over_body(header: impl Into<String>) -> Self {
        Self {
            algorithm: HmacAlgorithm::default(),
            signature: SignaturePlace::header(header),
            key_encoding: KeyEncoding::default(),
            signed: SignedTemplate::body_only(),
            time: None,
            empty_body: true,
        }
    }

    pub(crate) fn prepare(&self, secrets: &[Secret]) -> Result<Verifier, KeyError> {
        require_some(secrets)?;
        self.check()?;
        let (mut keys, mut warnings) = (Vec::new(), Vec::new());
        for (index, secret) in secrets.iter().enumerate() {
            let key = decode_key(index, secret, self.key_encoding)?;
            warnings.extend(short_key_warning(index, key.len()));
            keys.push(KeyedMac::keyed(self.algorithm, &key));
        }
        Ok(Verifier::of(PreparedHmac { scheme: self.clone(), keys, secrets: secrets.to_vec() }, warnings))
    }

    fn check(&self) -> Result<(), KeyError> {
        self.signature.check()?;
        check_time(self.time.as_ref(), &self.signed)?;
        if let Some(TimestampPlace::Field(_)) = self.time.as_ref().map(|time| &time.place)
            && (self.signature.fields.is_none() || self.signature.repeatable)
        {
            return Err(KeyError::settings(
                "`timestamp_field` needs `signature_field` and a header that is not repeated",
            ));
        }
        Ok(())
    }
}

/// A timestamp has to be signed, and what is signed as one has to be stated.
pub(crate) fn check_time(time: Option<&SignedTime>, signed: &SignedTemplate) -> Result<(), KeyError> {
    match (signed.signs_timestamp(), time) {
        (true, None | Some(SignedTime { place: TimestampPlace::Body(_), .. })) => {
            Err(KeyError::settings("the signed template has {timestamp}; set `timestamp_header` or `timestamp_field`"))
        }
        (false, Some(time)) if time.is_outside_body() => Err(KeyError::settings(
            "the timestamp is set and is not signed, so it would not stop a replay; put {timestamp} into `signed`",
        )),
        _ => Ok(()),
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
    fn raw_timestamp<'a>(&self, req: &Request<'a>) -> Result<&'a [u8], Rejection> {
        self.scheme.time.as_ref().map_or(Ok(&b""[..]), |time| time.raw(req, &self.scheme.signature))
    }

    fn tag(&self, key: &KeyedMac, req: &Request<'_>, timestamp: &[u8]) -> Result<Tag, Rejection> {
        let mut mac = key.clone();
        self.scheme.signed.feed(req, timestamp, |bytes| mac.update(bytes))?;
        Ok(mac.finish())
    }

    /// The secret whose signature is presented.
    fn position(
        &self,
        req: &Request<'_>,
        timestamp: &[u8],
        signatures: &[Presented],
    ) -> Result<Option<usize>, Rejection> {
        for (index, key) in self.keys.iter().enumerate() {
            let tag = self.tag(key, req, timestamp)?;
            if signatures.iter().any(|signature| tag.equals(signature.as_slice())) {
                return Ok(Some(index));
            }
        }
        Ok(None)
    }
}

impl Prepared for PreparedHmac {
    fn verify(&self, req: &Request<'_>, now: UnixTime) -> Result<Verified, Rejection> {
        let scheme = &self.scheme;
        let signatures = scheme.signature.signatures(req, scheme.algorithm.tag_len())?;
        if req.body.is_empty() && !scheme.empty_body {
            return Err(Rejection::of(
                RejectionReason::EmptyBody,
                "the body is empty, and nothing but the body is signed",
            ));
        }
        let timestamp = self.raw_timestamp(req)?;
        let time = scheme.time.as_ref();
        let outside = time.filter(|time| time.is_outside_body());
        let signed_at_s = outside.map(|time| time.check(timestamp, now)).transpose()?;
        let Some(index) = self.position(req, timestamp, &signatures)? else {
            let presented = format!("the signature in header {}", scheme.signature.name(req));
            return Err(diagnosis::no_match(&presented, self.keys.len()));
        };
        let in_body = time.map(|time| time.check_body(req.body, now)).transpose()?.flatten();
        Ok(Verified { secret_index: Some(index), signed_at_s: signed_at_s.or(in_body) })
    }

    fn diagnose(&self, req: &Request<'_>, now: UnixTime, rejection: &Rejection) -> Vec<String> {
        let scheme = &self.scheme;
        let name = scheme.signature.name(req);
        if !req.has_header(name) {
            return diagnosis::about_header(name, req);
        }
        let timestamp = self.raw_timestamp(req).ok();
        let format = self.scheme.time.as_ref().map(|time| time.format).unwrap_or_default();
        let signatures = scheme.signature.readings(req);
        let fits = |_: usize, key: &[u8], req: &Request<'_>| {
            let tag = self.tag(&KeyedMac::keyed(scheme.algorithm, key), req, timestamp.unwrap_or_default());
            tag.is_ok_and(|tag| signatures.iter().any(|bytes| tag.equals(bytes)))
        };
        let trial = Trial {
            secrets: &self.secrets,
            configured: scheme.key_encoding,
            signs_url: scheme.signed.signs_url(),
            fits: &fits,
        };
        trial
            .explain(req, rejection)
            .into_iter()
            .chain(diagnosis::about_clock(timestamp, format, now, rejection))
            .collect()
    }
}

#[cfg(test)]
#[path = "hmac_tests.rs"]
mod tests;
