//! Scheme `standard-webhooks` (standardwebhooks.com), which Svix founded: `{id}.{timestamp}.{body}`, signed with
//! HMAC-SHA-256 (`v1`) or ed25519 (`v1a`), several signatures in one header.
//!
//! The timestamp is signed as its raw text and has to be plain digits; ids with a dot are refused, as the joined text
//! could be read two ways. One header family has to be complete: official libraries fall back header by header, which
//! would let an unsigned `svix-id` stand beside signed `webhook-*` headers.

use crate::diagnosis::{self, Trial};
use crate::encoding;
use crate::mac::{HmacAlgorithm, KeyedMac};
use crate::request::Request;
use crate::scheme::{Prepared, Verifier};
use crate::schemes::hmac::KeyEncoding;
use crate::schemes::signed_time::TimestampFormat;
use crate::secret::{KeyError, PUBLIC_KEY_PREFIX, SHORTEST_GOOD_KEY, Secret, refuse_asymmetric, require_some};
use crate::time::{UnixTime, check_tolerance, parse_seconds};
use crate::verdict::{Rejection, RejectionReason, Verified, excerpt};
use ring::signature::{ED25519, UnparsedPublicKey};

const SECRET_PREFIX: &str = "whsec_";
const ALGORITHM: HmacAlgorithm = HmacAlgorithm::Sha256;
const ED25519_KEY_LEN: usize = 32;
const ED25519_SIGNATURE_LEN: usize = 64;
/// Checking an ed25519 signature costs some 50 µs; a sender in rotation shows about ten.
const MOST_ED25519_SIGNATURES: usize = 16;

/// Which headers carry a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HeaderFamily {
    /// `svix-*` where any of them is there, else `webhook-*`.
    #[default]
    SvixThenWebhook,
    /// `webhook-*` only.
    Webhook,
}

/// Settings of scheme `standard-webhooks`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StandardWebhooks {
    /// Which headers are read.
    pub headers: HeaderFamily,
    /// How secrets become keys: base64 behind an optional `whsec_`; literal for providers that take text as it is.
    /// `whpk_` secrets are ed25519 public keys whatever this says.
    pub key_encoding: KeyEncoding,
    /// How far the timestamp may be from now, in seconds, past and future alike, both ends included.
    pub tolerance_s: u32,
}

impl Default for StandardWebhooks {
    fn default() -> Self {
        Self { headers: HeaderFamily::default(), key_encoding: KeyEncoding::Base64, tolerance_s: 300 }
    }
}

enum Key {
    Shared(Box<KeyedMac>),
    Public(UnparsedPublicKey<Vec<u8>>),
}

impl StandardWebhooks {
    pub(crate) fn prepare(self, secrets: &[Secret]) -> Result<Verifier, KeyError> {
        require_some(secrets)?;
        let keys = secrets.iter().enumerate().map(|(index, secret)| self.key(index, secret));
        let keys = keys.collect::<Result<Vec<_>, _>>()?;
        Ok(Verifier::of(PreparedStandardWebhooks { scheme: self, keys, secrets: secrets.to_vec() }, Vec::new()))
    }

    fn key(self, index: usize, secret: &Secret) -> Result<Key, KeyError> {
        if let Some(encoded) = secret.text().strip_prefix(PUBLIC_KEY_PREFIX) {
            let key = encoding::key_from_base64(encoded).filter(|key| key.len() == ED25519_KEY_LEN);
            let key = key.ok_or_else(|| KeyError::at(index, "behind whpk_ there are not 32 bytes of base64"))?;
            return Ok(Key::Public(UnparsedPublicKey::new(&ED25519, key)));
        }
        Ok(Key::Shared(Box::new(KeyedMac::keyed(ALGORITHM, &self.shared_key(index, secret)?))))
    }

    /// The bytes of an HMAC key that is long enough.
    pub(crate) fn shared_key(self, index: usize, secret: &Secret) -> Result<Vec<u8>, KeyError> {
        refuse_asymmetric(index, secret)?;
        let key = self.decoded(secret.text()).ok_or_else(|| {
            let name = self.key_encoding.as_str();
            KeyError::at(index, format!("is not {name} behind an optional whsec_; copy it from the provider once more"))
        })?;
        if key.len() < SHORTEST_GOOD_KEY {
            let length = key.len();
            return Err(KeyError::at(
                index,
                format!("the key has {length} bytes, at least {SHORTEST_GOOD_KEY} are needed; copy the whole secret"),
            ));
        }
        Ok(key)
    }

    fn decoded(self, text: &str) -> Option<Vec<u8>> {
        match self.key_encoding {
            KeyEncoding::Literal | KeyEncoding::Html => self.key_encoding.decode(text),
            KeyEncoding::Base64 | KeyEncoding::Hex => {
                self.key_encoding.decode(text.strip_prefix(SECRET_PREFIX).unwrap_or(text))
            }
        }
    }

    fn header_names(self, req: &Request<'_>) -> &'static [&'static str; 3] {
        const SVIX: [&str; 3] = ["svix-id", "svix-timestamp", "svix-signature"];
        const WEBHOOK: [&str; 3] = ["webhook-id", "webhook-timestamp", "webhook-signature"];
        let is_svix = |given: &str| SVIX.iter().any(|name| given.eq_ignore_ascii_case(name));
        let svix = self.headers == HeaderFamily::SvixThenWebhook && req.headers.iter().any(|(name, _)| is_svix(name));
        if svix { &SVIX } else { &WEBHOOK }
    }
}

/// The signed headers of one message.
struct Message<'a> {
    id: &'a [u8],
    timestamp: &'a [u8],
    signatures: &'a [u8],
    names: &'static [&'static str; 3],
}

impl<'a> Message<'a> {
    fn read(scheme: StandardWebhooks, req: &Request<'a>) -> Result<Self, Rejection> {
        let names = scheme.header_names(req);
        let [id, timestamp, signatures] = req.sole_headers(names)?;
        Ok(Self { id, timestamp, signatures, names })
    }

    fn check_id(&self) -> Result<(), Rejection> {
        let name = self.names[0];
        let problem = if self.id.is_empty() {
            format!("header {name} is empty")
        } else if self.id.contains(&b'.') {
            format!("header {name} contains a dot, so the signed text could be read two ways: {}", excerpt(self.id))
        } else {
            return Ok(());
        };
        Err(Rejection::of(RejectionReason::MalformedHeader, problem))
    }

    /// The entries of one version; other versions, and what is no entry, are skipped.
    fn entries(&self, version: &'static [u8]) -> impl Iterator<Item = &'a [u8]> {
        let entries = self.signatures.split(|byte| *byte == b' ');
        entries.filter_map(move |entry| entry.strip_prefix(version)?.strip_prefix(b","))
    }

    fn hmac_signatures(&self) -> impl Iterator<Item = encoding::Presented> {
        self.entries(b"v1").filter_map(|text| encoding::signature_from_base64(text, ALGORITHM.tag_len()))
    }

    fn ed25519_signatures(&self) -> impl Iterator<Item = encoding::Presented> {
        self.entries(b"v1a").filter_map(|text| encoding::signature_from_base64(text, ED25519_SIGNATURE_LEN))
    }

    fn tag(&self, key: &KeyedMac, body: &[u8]) -> crate::mac::Tag {
        key.over(&[self.id, b".", self.timestamp, b".", body])
    }

    /// ed25519 hashes its message twice, so it has to lie in one piece.
    fn signed_text(&self, body: &[u8]) -> Vec<u8> {
        [self.id, b".", self.timestamp, b".", body].concat()
    }

    fn fits_public(&self, key: &UnparsedPublicKey<Vec<u8>>, body: &[u8]) -> bool {
        let mut signatures = self.ed25519_signatures().take(MOST_ED25519_SIGNATURES).peekable();
        signatures.peek().is_some() && {
            let text = self.signed_text(body);
            signatures.any(|signature| key.verify(&text, signature.as_slice()).is_ok())
        }
    }
}

struct PreparedStandardWebhooks {
    scheme: StandardWebhooks,
    keys: Vec<Key>,
    secrets: Vec<Secret>,
}

impl PreparedStandardWebhooks {
    fn no_match(&self, message: &Message<'_>) -> Rejection {
        let name = message.names[2];
        let v1 = message.entries(b"v1").count();
        if v1 > 0 && message.hmac_signatures().next().is_none() && message.ed25519_signatures().next().is_none() {
            let first = message.entries(b"v1").next().unwrap_or_default();
            return diagnosis::malformed_signature(&format!("header {name}"), first, "v1,<base64 of 32 bytes>");
        }
        let v1a = message.entries(b"v1a").count();
        if v1 + v1a == 0 {
            let detail = format!("header {name} has no entry \"v1,…\" or \"v1a,…\"");
            return Rejection::of(RejectionReason::MalformedSignature, detail);
        }
        let kinds =
            if self.keys.iter().all(|key| matches!(key, Key::Shared(_))) { " (v1a needs a whpk_ key)" } else { "" };
        diagnosis::no_match(&format!("header {name} with {v1} v1 and {v1a} v1a signature(s){kinds}"), self.keys.len())
    }
}

impl Prepared for PreparedStandardWebhooks {
    fn verify(&self, req: &Request<'_>, now: UnixTime) -> Result<Verified, Rejection> {
        let message = Message::read(self.scheme, req)?;
        message.check_id()?;
        let signed_at_s = parse_seconds(message.names[1], message.timestamp)?;
        check_tolerance(signed_at_s, now, self.scheme.tolerance_s)?;
        let presented: Vec<_> = message.hmac_signatures().collect();
        let position = self.keys.iter().position(|key| match key {
            Key::Shared(_) if presented.is_empty() => false,
            Key::Shared(key) => {
                let tag = message.tag(key, req.body);
                presented.iter().any(|signature| tag.equals(signature.as_slice()))
            }
            Key::Public(key) => message.fits_public(key, req.body),
        });
        match position {
            Some(index) => Ok(Verified { secret_index: Some(index), signed_at_s: Some(signed_at_s) }),
            None => Err(self.no_match(&message)),
        }
    }

    fn diagnose(&self, req: &Request<'_>, now: UnixTime, rejection: &Rejection) -> Vec<String> {
        let Ok(message) = Message::read(self.scheme, req) else {
            let names = self.scheme.header_names(req);
            return names
                .iter()
                .filter(|name| !req.has_header(name))
                .flat_map(|name| diagnosis::about_header(name, req))
                .collect();
        };
        let signatures: Vec<_> = message.entries(b"v1").flat_map(encoding::readings).collect();
        let fits = |index: usize, key: &[u8], req: &Request<'_>| match self.keys.get(index) {
            Some(Key::Public(key)) => message.fits_public(key, req.body),
            _ => {
                let tag = message.tag(&KeyedMac::keyed(ALGORITHM, key), req.body);
                signatures.iter().any(|(_, bytes)| tag.equals(bytes))
            }
        };
        let trial =
            Trial { secrets: &self.secrets, configured: self.scheme.key_encoding, signs_url: false, fits: &fits };
        trial
            .explain(req, rejection)
            .into_iter()
            .chain(diagnosis::about_clock(Some(message.timestamp), TimestampFormat::UnixSeconds, now, rejection))
            .collect()
    }
}

#[cfg(test)]
#[path = "standard_webhooks_tests.rs"]
mod tests;
