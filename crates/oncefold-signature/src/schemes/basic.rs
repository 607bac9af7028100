//! Scheme `basic`: HTTP Basic credentials (RFC 7617); a secret is `user:password`, UTF-8.

use crate::request::Request;
use crate::scheme::{Prepared, Verifier};
use crate::schemes::token::Known;
use crate::secret::{KeyError, Secret, require_some, short_key_warning};
use crate::time::UnixTime;
use crate::verdict::{Rejection, RejectionReason, Verified};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// The header that carries the credentials.
pub(crate) const HEADER: &str = "Authorization";
const AUTH_SCHEME: &str = "basic";

pub(crate) fn prepare(secrets: &[Secret]) -> Result<Verifier, KeyError> {
    require_some(secrets)?;
    let mut warnings = Vec::new();
    for (index, secret) in secrets.iter().enumerate() {
        match secret.text().split_once(':') {
            None => return Err(KeyError::at(index, "scheme \"basic\" needs \"user:password\"")),
            Some((_, "")) => return Err(KeyError::at(index, "the password after \"user:\" is empty")),
            Some((_, password)) => warnings.extend(short_key_warning(index, password.len())),
        }
    }
    Ok(Verifier::of(PreparedBasic { known: Known::of(secrets) }, warnings))
}

struct PreparedBasic {
    known: Known,
}

/// The decoded `user:password` of a header value.
fn credentials(value: &[u8]) -> Option<Vec<u8>> {
    let space = value.iter().position(|byte| *byte == b' ')?;
    let (scheme, rest) = value.split_at(space);
    if !scheme.eq_ignore_ascii_case(AUTH_SCHEME.as_bytes()) {
        return None;
    }
    STANDARD.decode(rest.trim_ascii_start()).ok()
}

impl Prepared for PreparedBasic {
    fn verify(&self, req: &Request<'_>, _now: UnixTime) -> Result<Verified, Rejection> {
        let presented = credentials(req.sole_header(HEADER)?).ok_or_else(|| {
            let detail = format!("header {HEADER} is not \"Basic\" and base64");
            Rejection::of(RejectionReason::MalformedHeader, detail)
        })?;
        let secret_index = self.known.position(&presented).ok_or_else(|| {
            let detail = format!("the credentials are none of the {} secrets", self.known.count());
            Rejection::of(RejectionReason::WrongToken, detail)
        })?;
        Ok(Verified { secret_index: Some(secret_index), signed_at_s: None })
    }

    fn diagnose(&self, _req: &Request<'_>, _now: UnixTime, _rejection: &Rejection) -> Vec<String> {
        Vec::new()
    }
}

#[cfg(test)]
#[path = "basic_tests.rs"]
mod tests;
