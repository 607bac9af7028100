//! Scheme `stripe`: `Stripe-Signature: t=<seconds>,v1=<hex>[,v1=…]` over `{t}.{body}`.
//!
//! The key is the whole secret, `whsec_` included; Svix writes the same prefix and decodes what follows. Stripe's own
//! libraries bound the past only; here the future is bounded as well, and a second `t` is refused, since libraries
//! differ in which one they check.

use crate::diagnosis::{self, Trial};
use crate::encoding;
use crate::mac::{HmacAlgorithm, KeyedMac};
use crate::request::Request;
use crate::scheme::{Prepared, Verifier};
use crate::schemes::hmac::{KeyEncoding, decode_key};
use crate::schemes::signature_place::field_values;
use crate::schemes::signed_time::TimestampFormat;
use crate::secret::{KeyError, Secret, require_some, short_key_warning};
use crate::time::{UnixTime, check_tolerance, parse_seconds};
use crate::verdict::{Rejection, RejectionReason, Verified};

/// The header with time and signatures.
pub(crate) const HEADER: &str = "Stripe-Signature";
const ALGORITHM: HmacAlgorithm = HmacAlgorithm::Sha256;

/// Settings of scheme `stripe`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StripeScheme {
    /// How far `t` may be from now, in seconds, past and future alike, both ends included.
    pub tolerance_s: u32,
}

impl Default for StripeScheme {
    fn default() -> Self {
        Self { tolerance_s: 300 }
    }
}

impl StripeScheme {
    pub(crate) fn prepare(self, secrets: &[Secret]) -> Result<Verifier, KeyError> {
        require_some(secrets)?;
        let (mut keys, mut warnings) = (Vec::new(), Vec::new());
        for (index, secret) in secrets.iter().enumerate() {
            let key = decode_key(index, secret, KeyEncoding::Literal)?;
            warnings.extend(short_key_warning(index, key.len()));
            keys.push(KeyedMac::keyed(ALGORITHM, &key));
        }
        Ok(Verifier::of(PreparedStripe { scheme: self, keys, secrets: secrets.to_vec() }, warnings))
    }
}

/// The fields of the header: one `t`, any number of `v1`; other keys are for other versions.
struct Fields<'a> {
    timestamp: &'a [u8],
    header: &'a [u8],
}

impl<'a> Fields<'a> {
    fn read(header: &'a [u8]) -> Result<Self, Rejection> {
        let mut timestamps = field_values(header, ',', "t");
        let malformed = |detail: String| Rejection::of(RejectionReason::MalformedHeader, detail);
        let timestamp =
            timestamps.next().ok_or_else(|| malformed(format!("header {HEADER} has no t= field (t=…,v1=…)")))?;
        let more = timestamps.count();
        if more > 0 {
            let detail = format!("header {HEADER} has {} t= fields, one is allowed", more + 1);
            return Err(Rejection::of(RejectionReason::DuplicateHeader, detail));
        }
        if field_values(header, ',', "v1").next().is_none() {
            return Err(malformed(format!("header {HEADER} has no v1= field (t=…,v1=…)")));
        }
        Ok(Self { timestamp, header })
    }

    fn signatures(&self) -> impl Iterator<Item = &'a [u8]> {
        field_values(self.header, ',', "v1")
    }
}

struct PreparedStripe {
    scheme: StripeScheme,
    keys: Vec<KeyedMac>,
    secrets: Vec<Secret>,
}

impl Prepared for PreparedStripe {
    fn verify(&self, req: &Request<'_>, now: UnixTime) -> Result<Verified, Rejection> {
        let fields = Fields::read(req.sole_header(HEADER)?)?;
        let signed_at_s = parse_seconds("field t", fields.timestamp)?;
        check_tolerance(signed_at_s, now, self.scheme.tolerance_s)?;
        let hex = |text| encoding::signature_from_hex(text, ALGORITHM.tag_len());
        let presented: Vec<_> = fields.signatures().filter_map(hex).collect();
        if presented.is_empty() {
            let first = fields.signatures().next().unwrap_or_default();
            return Err(diagnosis::malformed_signature("field v1", first, "lower-case hex of 32 bytes"));
        }
        for (index, key) in self.keys.iter().enumerate() {
            let tag = key.over(&[fields.timestamp, b".", req.body]);
            if presented.iter().any(|signature| tag.equals(signature.as_slice())) {
                return Ok(Verified { secret_index: Some(index), signed_at_s: Some(signed_at_s) });
            }
        }
        Err(diagnosis::no_match(&format!("{} v1 signature(s)", fields.signatures().count()), self.keys.len()))
    }

    fn diagnose(&self, req: &Request<'_>, now: UnixTime, rejection: &Rejection) -> Vec<String> {
        let Ok(header) = req.sole_header(HEADER) else { return diagnosis::about_header(HEADER, req) };
        let Ok(fields) = Fields::read(header) else { return Vec::new() };
        let signatures: Vec<_> = fields.signatures().flat_map(encoding::readings).collect();
        let fits = |_: usize, key: &[u8], req: &Request<'_>| {
            let tag = KeyedMac::keyed(ALGORITHM, key).over(&[fields.timestamp, b".", req.body]);
            signatures.iter().any(|(_, bytes)| tag.equals(bytes))
        };
        let trial = Trial { secrets: &self.secrets, configured: KeyEncoding::Literal, signs_url: false, fits: &fits };
        trial
            .explain(req, rejection)
            .into_iter()
            .chain(diagnosis::about_clock(Some(fields.timestamp), TimestampFormat::UnixSeconds, now, rejection))
            .collect()
    }
}

#[cfg(test)]
#[path = "stripe_tests.rs"]
mod tests;
