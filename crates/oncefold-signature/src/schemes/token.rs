//! Scheme `token`: the sender shows the secret itself. Nothing binds the body, so use it over TLS only.

use crate::request::Request;
use crate::scheme::{Prepared, Verifier};
use crate::secret::{KeyError, Secret, require_some, short_key_warning};
use crate::time::UnixTime;
use crate::verdict::{Rejection, RejectionReason, Verified};
use percent_encoding::percent_decode;
use sha2::{Digest as _, Sha256};
use std::borrow::Cow;
use std::fmt;
use subtle::ConstantTimeEq;

/// Where the token is. The place must be redacted wherever requests are kept or shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TokenPlace {
    /// In the header of this name.
    Header(String),
    /// In the query parameter of this name.
    Query(String),
    /// In the path: `/in/{source}/{token}`.
    Path,
}

impl fmt::Display for TokenPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Header(name) => write!(f, "header {name}"),
            Self::Query(name) => write!(f, "query parameter {name}"),
            Self::Path => f.write_str("the path"),
        }
    }
}

/// Settings of scheme `token`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenScheme {
    /// Where the token is.
    pub place: TokenPlace,
    /// What stands before the token, such as `Bearer `; compared exactly.
    pub prefix: String,
}

impl TokenScheme {
    pub(crate) fn prepare(&self, secrets: &[Secret]) -> Result<Verifier, KeyError> {
        require_some(secrets)?;
        if let TokenPlace::Header(name) | TokenPlace::Query(name) = &self.place
            && name.is_empty()
        {
            return Err(KeyError::settings("the token's header or query parameter has no name"));
        }
        let lengths = secrets.iter().map(|secret| secret.text().len()).enumerate();
        let warnings = lengths.filter_map(|(index, length)| short_key_warning(index, length)).collect();
        Ok(Verifier::of(PreparedToken { scheme: self.clone(), known: Known::of(secrets) }, warnings))
    }

    fn presented<'a>(&self, req: &Request<'a>) -> Result<Cow<'a, [u8]>, Rejection> {
        match &self.place {
            TokenPlace::Header(name) => req.sole_header(name).map(Cow::Borrowed),
            TokenPlace::Query(name) => query_value(req.query, name),
            TokenPlace::Path => {
                req.path_token.map(|token| Cow::Borrowed(token.as_bytes())).ok_or_else(|| missing(&self.place))
            }
        }
    }
}

fn missing(place: &TokenPlace) -> Rejection {
    Rejection::of(RejectionReason::MissingToken, format!("no token in {place}"))
}

/// The one value of a query parameter, decoded as a form.
pub(crate) fn query_value<'a>(query: &'a str, name: &str) -> Result<Cow<'a, [u8]>, Rejection> {
    let pairs = query.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    let mut values = pairs.filter(|(key, _)| form_decoded(key).as_ref() == name.as_bytes()).map(|(_, value)| value);
    let place = TokenPlace::Query(name.to_owned());
    let first = values.next().ok_or_else(|| missing(&place))?;
    match values.count() {
        0 => Ok(form_decoded(first)),
        more => {
            let detail = format!("{place} is there {} times, once is allowed", more + 1);
            Err(Rejection::of(RejectionReason::DuplicateHeader, detail))
        }
    }
}

fn form_decoded(text: &str) -> Cow<'_, [u8]> {
    if text.contains('+') {
        Cow::Owned(percent_decode(text.replace('+', " ").as_bytes()).collect())
    } else {
        percent_decode(text.as_bytes()).into()
    }
}

/// Secrets as digests: comparing these takes the same time whatever the length and content of what is presented.
pub(crate) struct Known(Vec<[u8; 32]>);

impl Known {
    pub(crate) fn of(secrets: &[Secret]) -> Self {
        Self(secrets.iter().map(|secret| Sha256::digest(secret.text()).into()).collect())
    }

    /// Which secret was presented; every one is compared.
    pub(crate) fn position(&self, presented: &[u8]) -> Option<usize> {
        let digest: [u8; 32] = Sha256::digest(presented).into();
        let mut found = None;
        for (index, known) in self.0.iter().enumerate() {
            if bool::from(known.ct_eq(&digest)) {
                found = found.or(Some(index));
            }
        }
        found
    }

    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }
}

struct PreparedToken {
    scheme: TokenScheme,
    known: Known,
}

impl Prepared for PreparedToken {
    fn verify(&self, req: &Request<'_>, _now: UnixTime) -> Result<Verified, Rejection> {
        let presented = self.scheme.presented(req)?;
        let place = &self.scheme.place;
        let Some(token) = presented.strip_prefix(self.scheme.prefix.as_bytes()) else {
            let detail = format!("{place} does not start with {:?}", self.scheme.prefix);
            return Err(Rejection::of(RejectionReason::MalformedHeader, detail));
        };
        if token.is_empty() {
            return Err(missing(place));
        }
        let secret_index = self.known.position(token).ok_or_else(|| {
            let detail = format!("the token in {place} is none of the {} secrets", self.known.count());
            Rejection::of(RejectionReason::WrongToken, detail)
        })?;
        Ok(Verified { secret_index: Some(secret_index), signed_at_s: None })
    }

    fn diagnose(&self, req: &Request<'_>, _now: UnixTime, rejection: &Rejection) -> Vec<String> {
        if !matches!(rejection.reason, RejectionReason::WrongToken | RejectionReason::MalformedHeader) {
            return Vec::new();
        }
        let Ok(presented) = self.scheme.presented(req) else { return Vec::new() };
        let after_prefix = presented.strip_prefix(self.scheme.prefix.as_bytes()).unwrap_or(&presented);
        let readings = [
            ("with the white space around it removed", after_prefix.trim_ascii()),
            ("without the word before it", after_word(after_prefix)),
        ];
        let fitting = readings.iter().filter_map(|(how, token)| Some((how, self.known.position(token)?)));
        fitting.map(|(how, index)| format!("the token fits secrets[{index}] {how}")).take(1).collect()
    }
}

fn after_word(token: &[u8]) -> &[u8] {
    token.iter().position(|byte| *byte == b' ').map_or(token, |space| token[space..].trim_ascii())
}

#[cfg(test)]
#[path = "token_tests.rs"]
mod tests;
