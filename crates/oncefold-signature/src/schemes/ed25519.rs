//! Scheme `ed25519`: a signature over a template of the request, such as `{timestamp}{body}`, that a public key fits.
//! The source's secrets are the sender's public keys. Signatures are decoded before they are checked, so hex may be of
//! either case.

use crate::diagnosis::{self, Trial};
use crate::encoding::Presented;
use crate::request::Request;
use crate::scheme::{Prepared, Verifier};
use crate::schemes::hmac::{KeyEncoding, check_time};
use crate::schemes::signature_place::SignaturePlace;
use crate::schemes::signed_template::SignedTemplate;
use crate::schemes::signed_time::SignedTime;
use crate::secret::{KeyError, Secret, require_some};
use crate::time::UnixTime;
use crate::verdict::{Rejection, Verified};
use ring::signature::{ED25519, UnparsedPublicKey};

const KEY_LEN: usize = 32;
const SIGNATURE_LEN: usize = 64;

/// Settings of scheme `ed25519`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ed25519Scheme {
    /// Where the signature stands.
    pub signature: SignaturePlace,
    /// How public keys are written.
    pub key_encoding: KeyEncoding,
    /// What is signed.
    pub signed: SignedTemplate,
    /// The time that is signed.
    pub time: Option<SignedTime>,
}

impl Ed25519Scheme {
    pub(crate) fn prepare(&self, secrets: &[Secret]) -> Result<Verifier, KeyError> {
        require_some(secrets)?;
        self.signature.check()?;
        check_time(self.time.as_ref(), &self.signed)?;
        let keys = secrets.iter().enumerate().map(|(index, secret)| self.key(index, secret));
        let keys = keys.collect::<Result<Vec<_>, _>>()?;
        Ok(Verifier::of(PreparedEd25519 { scheme: self.clone(), keys, secrets: secrets.to_vec() }, Vec::new()))
    }

    fn key(&self, index: usize, secret: &Secret) -> Result<PublicKey, KeyError> {
        let key = self.key_encoding.decode(secret.text()).filter(|key| key.len() == KEY_LEN);
        let name = self.key_encoding.as_str();
        let key = key.ok_or_else(|| {
            KeyError::at(
                index,
                format!("is no ed25519 public key ({KEY_LEN} bytes in {name}); copy it from the provider"),
            )
        })?;
        Ok(UnparsedPublicKey::new(&ED25519, key))
    }
}

type PublicKey = UnparsedPublicKey<Vec<u8>>;

struct PreparedEd25519 {
    scheme: Ed25519Scheme,
    keys: Vec<PublicKey>,
    secrets: Vec<Secret>,
}

impl PreparedEd25519 {
    fn signatures(&self, req: &Request<'_>) -> Result<Vec<Presented>, Rejection> {
        let place = &self.scheme.signature;
        let texts = place.texts(req)?;
        let decode = |text: &&[u8]| match place.encoding {
            crate::SignatureEncoding::Hex => place.encoding.decode(&text.to_ascii_lowercase(), SIGNATURE_LEN),
            crate::SignatureEncoding::Base64 => place.encoding.decode(text, SIGNATURE_LEN),
        };
        let decoded: Vec<_> = texts.iter().filter_map(decode).collect();
        if decoded.is_empty() {
            let expected = format!("{} of {SIGNATURE_LEN} bytes", place.encoding.as_str());
            let first = texts.first().copied().unwrap_or_default();
            return Err(diagnosis::malformed_signature(&format!("header {}", place.name(req)), first, &expected));
        }
        Ok(decoded)
    }

    fn raw_timestamp<'a>(&self, req: &Request<'a>) -> Result<&'a [u8], Rejection> {
        self.scheme.time.as_ref().map_or(Ok(&b""[..]), |time| time.raw(req, &self.scheme.signature))
    }
}

impl Prepared for PreparedEd25519 {
    fn verify(&self, req: &Request<'_>, now: UnixTime) -> Result<Verified, Rejection> {
        let signatures = self.signatures(req)?;
        let timestamp = self.raw_timestamp(req)?;
        let time = self.scheme.time.as_ref();
        let outside = time.filter(|time| time.is_outside_body());
        let signed_at_s = outside.map(|time| time.check(timestamp, now)).transpose()?;
        let text = self.scheme.signed.text(req, timestamp)?;
        let fits = |key: &PublicKey| signatures.iter().any(|signature| key.verify(&text, signature.as_slice()).is_ok());
        let Some(index) = self.keys.iter().position(fits) else {
            let presented = format!("the signature in header {}", self.scheme.signature.name(req));
            return Err(diagnosis::no_match(&presented, self.keys.len()));
        };
        let in_body = time.map(|time| time.check_body(req.body, now)).transpose()?.flatten();
        Ok(Verified { secret_index: Some(index), signed_at_s: signed_at_s.or(in_body) })
    }

    fn diagnose(&self, req: &Request<'_>, now: UnixTime, rejection: &Rejection) -> Vec<String> {
        let name = self.scheme.signature.name(req);
        if !req.has_header(name) {
            return diagnosis::about_header(name, req);
        }
        let timestamp = self.raw_timestamp(req).ok();
        let format = self.scheme.time.as_ref().map(|time| time.format).unwrap_or_default();
        let signatures = self.scheme.signature.readings(req);
        let fits = |_: usize, key: &[u8], req: &Request<'_>| {
            let key = UnparsedPublicKey::new(&ED25519, key);
            let text = self.scheme.signed.text(req, timestamp.unwrap_or_default());
            text.is_ok_and(|text| signatures.iter().any(|signature| key.verify(&text, signature).is_ok()))
        };
        let trial = Trial {
            secrets: &self.secrets,
            configured: self.scheme.key_encoding,
            signs_url: self.scheme.signed.signs_url(),
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
#[path = "ed25519_tests.rs"]
mod tests;
