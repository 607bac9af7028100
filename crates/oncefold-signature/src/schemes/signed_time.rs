//! The time that a signature covers: where it stands, how it is written, how far it may be from now.

use crate::json_members::value_at;
use crate::request::Request;
use crate::schemes::signature_place::{SignaturePlace, field_values};
use crate::time::{UnixTime, check_tolerance, parse_millis, parse_rfc3339, parse_seconds};
use crate::verdict::{Rejection, RejectionReason};
use std::borrow::Cow;

/// How a timestamp is written. It is signed as its raw text whatever this says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TimestampFormat {
    /// Unix seconds, 1 to 12 plain digits.
    #[default]
    UnixSeconds,
    /// Unix milliseconds, 1 to 15 plain digits.
    UnixMillis,
    /// An instant of RFC 3339, such as `2025-10-09T08:53:20Z`.
    Rfc3339,
}

/// Where a signed timestamp stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TimestampPlace {
    /// The text of this header; `{timestamp}` in the signed template.
    Header(String),
    /// This field in the signature's header; `{timestamp}` in the signed template.
    Field(String),
    /// This JSON Pointer (RFC 6901) into the body, which is signed as a whole.
    Body(String),
}

/// A timestamp that the signature covers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignedTime {
    /// Where it stands.
    pub place: TimestampPlace,
    /// How it is written.
    pub format: TimestampFormat,
    /// How far it may be from now, in seconds, past and future alike, both ends included.
    pub tolerance_s: u32,
}

impl SignedTime {
    /// Tolerance where the provider names none, in seconds.
    pub const DEFAULT_TOLERANCE_S: u32 = 300;

    /// Unix seconds in this header.
    pub fn header(name: impl Into<String>) -> Self {
        Self {
            place: TimestampPlace::Header(name.into()),
            format: TimestampFormat::default(),
            tolerance_s: Self::DEFAULT_TOLERANCE_S,
        }
    }

    /// Whether it is a part of the signed text of its own, `{timestamp}`.
    pub fn is_outside_body(&self) -> bool {
        !matches!(self.place, TimestampPlace::Body(_))
    }

    /// The raw text that is signed; nothing for a time in the body.
    pub(crate) fn raw<'a>(&self, req: &Request<'a>, signature: &SignaturePlace) -> Result<&'a [u8], Rejection> {
        match &self.place {
            TimestampPlace::Header(name) => req.sole_header(name),
            TimestampPlace::Body(_) => Ok(b""),
            TimestampPlace::Field(field) => {
                let header = signature.name(req);
                let separator = signature.fields.as_ref().map_or(',', |fields| fields.separator);
                let mut values = field_values(req.sole_header(header)?, separator, field);
                let first = values.next().ok_or_else(|| {
                    let detail = format!("header {header} has no {field}= field");
                    Rejection::of(RejectionReason::MalformedHeader, detail)
                })?;
                match values.count() {
                    0 => Ok(first),
                    more => {
                        let detail = format!("header {header} has {} {field}= fields, one is allowed", more + 1);
                        Err(Rejection::of(RejectionReason::DuplicateHeader, detail))
                    }
                }
            }
        }
    }

    /// Reads the text, and refuses a time too far from now.
    pub(crate) fn check(&self, raw: &[u8], now: UnixTime) -> Result<i64, Rejection> {
        let field = match &self.place {
            TimestampPlace::Header(name) => format!("header {name}"),
            TimestampPlace::Field(name) => format!("field {name}"),
            TimestampPlace::Body(pointer) => format!("{pointer} of the body"),
        };
        let seconds = match self.format {
            TimestampFormat::UnixSeconds => parse_seconds(&field, raw)?,
            TimestampFormat::UnixMillis => parse_millis(&field, raw)?.div_euclid(1000),
            TimestampFormat::Rfc3339 => parse_rfc3339(&field, raw)?,
        };
        check_tolerance(seconds, now, self.tolerance_s)?;
        Ok(seconds)
    }

    /// The time in a body that is known to be signed, checked like any other.
    pub(crate) fn check_body(&self, body: &[u8], now: UnixTime) -> Result<Option<i64>, Rejection> {
        let TimestampPlace::Body(pointer) = &self.place else { return Ok(None) };
        let text = value_at(body, pointer).and_then(|json| match json.as_bytes() {
            [b'"', ..] => serde_json::from_str::<String>(json).ok().map(Cow::Owned),
            [b'-' | b'0'..=b'9', ..] => Some(Cow::Borrowed(json)),
            _ => None,
        });
        let text = text.ok_or_else(|| {
            let detail = format!("the body has no timestamp at {pointer}");
            Rejection::of(RejectionReason::MalformedTimestamp, detail)
        })?;
        self.check(text.as_bytes(), now).map(Some)
    }

    /// The text as a sender writes it.
    pub(crate) fn written(&self, now: UnixTime) -> String {
        match self.format {
            TimestampFormat::UnixSeconds => now.as_secs().to_string(),
            TimestampFormat::UnixMillis => now.as_micros().div_euclid(1000).to_string(),
            TimestampFormat::Rfc3339 => {
                jiff::Timestamp::from_second(now.as_secs()).unwrap_or(jiff::Timestamp::UNIX_EPOCH).to_string()
            }
        }
    }
}
