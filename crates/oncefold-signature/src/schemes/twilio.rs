//! Scheme `twilio`: `X-Twilio-Signature` over the public URL and, for a form, its sorted parameters. A JSON body is
//! bound by its SHA-256 in the URL, `bodySHA256`, and both are checked. Any other body is bound by nothing and refused.
//!
//! Auth tokens sign with HMAC-SHA-1. Shared keys sign with HMAC-SHA-256 and say so in a header that is not signed
//! itself; `algorithm` pins what a source takes. Twilio's own libraries take the URL with and without its port, and so
//! does this.

use crate::diagnosis::{self, Trial};
use crate::encoding;
use crate::mac::{HmacAlgorithm, KeyedMac, Tag};
use crate::request::Request;
use crate::scheme::{Prepared, Verifier};
use crate::schemes::hmac::{KeyEncoding, decode_key};
use crate::schemes::signature_place::field_values;
use crate::schemes::signed_template::missing_url;
use crate::secret::{KeyError, Secret, require_some, short_key_warning};
use crate::signed_url::SignedUrl;
use crate::time::UnixTime;
use crate::verdict::{Rejection, RejectionReason, Verified, excerpt};
use percent_encoding::percent_decode;
use sha2::{Digest as _, Sha256};
use std::borrow::Cow;
use std::collections::BTreeSet;
use subtle::ConstantTimeEq;

/// The header with the signature.
pub(crate) const HEADER: &str = "X-Twilio-Signature";
/// The header that names the algorithm of shared keys.
pub(crate) const SETTINGS_HEADER: &str = "X-Twilio-Webhooks-Signature-Settings";
/// The query parameter with the hash of a body that is no form.
pub(crate) const BODY_HASH: &str = "bodySHA256";
const FORM: &[u8] = b"application/x-www-form-urlencoded";

/// Settings of scheme `twilio`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TwilioScheme {
    /// The only algorithm that is taken: SHA-1 for auth tokens, SHA-256 for shared keys. None takes what the delivery
    /// says.
    pub algorithm: Option<HmacAlgorithm>,
}

impl TwilioScheme {
    pub(crate) fn prepare(self, secrets: &[Secret]) -> Result<Verifier, KeyError> {
        require_some(secrets)?;
        if self.algorithm == Some(HmacAlgorithm::Sha512) {
            return Err(KeyError::settings("Twilio signs with sha1 or sha256"));
        }
        let (mut keys, mut warnings) = (Vec::new(), Vec::new());
        for (index, secret) in secrets.iter().enumerate() {
            let key = decode_key(index, secret, KeyEncoding::Literal)?;
            warnings.extend(short_key_warning(index, key.len()));
            keys.push(TwilioKey::new(&key));
        }
        Ok(Verifier::of(PreparedTwilio { scheme: self, keys, secrets: secrets.to_vec() }, warnings))
    }

    /// Which hash the delivery is signed with, where the source takes it.
    fn algorithm_of(self, req: &Request<'_>) -> Result<HmacAlgorithm, Rejection> {
        let malformed = |detail: String| Err(Rejection::of(RejectionReason::MalformedHeader, detail));
        let algorithm = if req.has_header(SETTINGS_HEADER) {
            let settings = req.sole_header(SETTINGS_HEADER)?;
            let mut named = field_values(settings, ',', "algorithm");
            match (named.next(), named.next()) {
                (Some(b"HMAC_SHA256"), None) => HmacAlgorithm::Sha256,
                _ => return malformed(format!("header {SETTINGS_HEADER} does not say algorithm=HMAC_SHA256")),
            }
        } else {
            HmacAlgorithm::Sha1
        };
        match self.algorithm {
            Some(pinned) if pinned != algorithm => {
                let (signed, taken) = (algorithm.as_str(), pinned.as_str());
                malformed(format!("the delivery is signed with {signed}, this source takes {taken} only"))
            }
            _ => Ok(algorithm),
        }
    }
}

/// The query parameter's values, as they are written.
fn query_values<'a>(query: &'a str, name: &'a str) -> impl Iterator<Item = &'a str> {
    query.split('&').filter_map(move |pair| pair.strip_prefix(name)?.strip_prefix('='))
}

/// What is signed behind the URL.
pub(crate) fn signed_parameters(req: &Request<'_>, query: &str) -> Result<Vec<u8>, Rejection> {
    let mut hashes = query_values(query, BODY_HASH);
    if let Some(stated) = hashes.next() {
        let hash: [u8; 32] = Sha256::digest(req.body).into();
        let stated = encoding::signature_from_hex(stated.as_bytes(), hash.len());
        let same = stated.is_some_and(|stated| bool::from(stated.as_slice().ct_eq(&hash)));
        if !same || hashes.next().is_some() {
            let detail = format!("the body does not have the hash in {BODY_HASH} of the URL");
            return Err(Rejection::of(RejectionReason::BodyMismatch, detail));
        }
        return Ok(Vec::new());
    }
    if req.body.is_empty() {
        return Ok(Vec::new());
    }
    let content_type = req.sole_header("content-type")?;
    let media_type = content_type.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
    if !media_type.eq_ignore_ascii_case(FORM) {
        let detail =
            format!("nothing signs a body of type {}: no form, and no {BODY_HASH} in the URL", excerpt(media_type));
        return Err(Rejection::of(RejectionReason::MalformedHeader, detail));
    }
    Ok(sorted_form(req.body))
}

/// Every distinct parameter, name and value decoded, in order.
fn sorted_form(body: &[u8]) -> Vec<u8> {
    let pairs = body.split(|byte| *byte == b'&').filter(|pair| !pair.is_empty()).map(|pair| {
        let at = pair.iter().position(|byte| *byte == b'=').unwrap_or(pair.len());
        (decoded(&pair[..at]), decoded(pair.get(at + 1..).unwrap_or_default()))
    });
    let sorted: BTreeSet<_> = pairs.collect();
    let mut joined = Vec::with_capacity(body.len());
    for (name, value) in &sorted {
        joined.extend_from_slice(name);
        joined.extend_from_slice(value);
    }
    joined
}

/// A name or a value of a form as bytes; borrowed where nothing in it is encoded.
fn decoded(text: &[u8]) -> Cow<'_, [u8]> {
    if !text.contains(&b'+') {
        return percent_decode(text).into();
    }
    let mut spaced = text.to_vec();
    spaced.iter_mut().filter(|byte| **byte == b'+').for_each(|byte| *byte = b' ');
    match Cow::from(percent_decode(&spaced)) {
        Cow::Owned(decoded) => Cow::Owned(decoded),
        Cow::Borrowed(_) => Cow::Owned(spaced),
    }
}

/// The URL that was asked for: the stated one with the received query, as Twilio adds to it.
fn requested<'a>(req: &Request<'a>) -> Result<SignedUrl<'a>, Rejection> {
    let stated = SignedUrl::parse(req.url.ok_or_else(missing_url)?).ok_or_else(missing_url)?;
    let query = if req.query.is_empty() { stated.query } else { Some(req.query) };
    Ok(SignedUrl { query, ..stated })
}

pub(crate) fn tag(key: &KeyedMac, url: &str, parameters: &[u8]) -> Tag {
    key.over(&[url.as_bytes(), parameters])
}

/// A key, set up for each hash.
struct TwilioKey {
    sha1: KeyedMac,
    sha256: KeyedMac,
}

impl TwilioKey {
    fn new(key: &[u8]) -> Self {
        let keyed = |algorithm| KeyedMac::keyed(algorithm, key);
        Self { sha1: keyed(HmacAlgorithm::Sha1), sha256: keyed(HmacAlgorithm::Sha256) }
    }

    fn of(&self, algorithm: HmacAlgorithm) -> &KeyedMac {
        if algorithm == HmacAlgorithm::Sha1 { &self.sha1 } else { &self.sha256 }
    }
}

struct PreparedTwilio {
    scheme: TwilioScheme,
    keys: Vec<TwilioKey>,
    secrets: Vec<Secret>,
}

impl Prepared for PreparedTwilio {
    fn verify(&self, req: &Request<'_>, _now: UnixTime) -> Result<Verified, Rejection> {
        let text = req.sole_header(HEADER)?;
        let algorithm = self.scheme.algorithm_of(req)?;
        let length = algorithm.tag_len();
        let signature = encoding::signature_from_base64(text, length).ok_or_else(|| {
            let expected = format!("base64 of {length} bytes");
            diagnosis::malformed_signature(&format!("header {HEADER}"), text, &expected)
        })?;
        let url = requested(req)?;
        let parameters = signed_parameters(req, url.query.unwrap_or_default())?;
        let fits_url = |key: &KeyedMac, url: &str| tag(key, url, &parameters).equals(signature.as_slice());
        let fits = |key: &TwilioKey| {
            let key = key.of(algorithm);
            fits_url(key, &url.text()) || fits_url(key, &url.without_port().text()) || {
                let authority = url.authority_with_port();
                fits_url(key, &SignedUrl { authority: &authority, ..url }.text())
            }
        };
        match self.keys.iter().position(fits) {
            Some(index) => Ok(Verified { secret_index: Some(index), signed_at_s: None }),
            None => Err(diagnosis::no_match(&format!("the signature in header {HEADER}"), self.keys.len())),
        }
    }

    fn diagnose(&self, req: &Request<'_>, _now: UnixTime, rejection: &Rejection) -> Vec<String> {
        let Ok(text) = req.sole_header(HEADER) else { return diagnosis::about_header(HEADER, req) };
        let signatures: Vec<_> = encoding::readings(text).into_iter().map(|(_, bytes)| bytes).collect();
        let fits = |_: usize, key: &[u8], req: &Request<'_>| {
            let Some(url) = req.url else { return false };
            let query = SignedUrl::parse(url).and_then(|url| url.query).unwrap_or_default();
            let Ok(parameters) = signed_parameters(req, query) else { return false };
            [HmacAlgorithm::Sha1, HmacAlgorithm::Sha256]
                .iter()
                .map(|algorithm| tag(&KeyedMac::keyed(*algorithm, key), url, &parameters))
                .any(|tag| signatures.iter().any(|bytes| tag.equals(bytes)))
        };
        let trial = Trial { secrets: &self.secrets, configured: KeyEncoding::Literal, signs_url: true, fits: &fits };
        trial.explain(req, rejection)
    }
}

#[cfg(test)]
#[path = "twilio_tests.rs"]
mod tests;
