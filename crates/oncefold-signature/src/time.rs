//! Time as it is given to a verifier, and how far a signed timestamp may be from it.

use crate::verdict::{Rejection, RejectionReason};

/// An instant: microseconds since 1970-01-01T00:00:00Z.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UnixTime(i64);

impl UnixTime {
    /// From microseconds since the epoch.
    pub const fn from_micros(micros: i64) -> Self {
        Self(micros)
    }

    /// From whole seconds since the epoch; saturates at the ends of the range.
    pub const fn from_secs(secs: i64) -> Self {
        Self(secs.saturating_mul(1_000_000))
    }

    /// Microseconds since the epoch.
    pub const fn as_micros(self) -> i64 {
        self.0
    }

    /// Whole seconds since the epoch, rounded down.
    pub const fn as_secs(self) -> i64 {
        self.0.div_euclid(1_000_000)
    }
}

/// Digits a timestamp may have: seconds up to the year 33658, or milliseconds would be taken for seconds.
const SECONDS_DIGITS: usize = 12;
/// Digits of a millisecond timestamp.
const MILLIS_DIGITS: usize = 15;

/// Reads `^[0-9]{1,12}$` as seconds. Nothing else is a timestamp: `+1`, `1.5e9`, other digits and white space are read
/// differently by different libraries.
pub(crate) fn parse_seconds(field: &str, text: &[u8]) -> Result<i64, Rejection> {
    parse_digits(field, text, SECONDS_DIGITS, "Unix seconds")
}

/// Reads plain digits as milliseconds since the epoch.
pub(crate) fn parse_millis(field: &str, text: &[u8]) -> Result<i64, Rejection> {
    parse_digits(field, text, MILLIS_DIGITS, "Unix milliseconds")
}

/// Longest text of an instant: nanoseconds and an offset.
const RFC3339_BYTES: usize = 35;

/// Reads an instant of RFC 3339 as seconds, rounded down.
pub(crate) fn parse_rfc3339(field: &str, text: &[u8]) -> Result<i64, Rejection> {
    let plain = text.len() <= RFC3339_BYTES && text.get(10) == Some(&b'T');
    let instant =
        std::str::from_utf8(text).ok().filter(|_| plain).and_then(|text| text.parse::<jiff::Timestamp>().ok());
    instant.map(|instant| instant.as_microsecond().div_euclid(1_000_000)).ok_or_else(|| {
        let detail = format!("{field} is not an instant of RFC 3339: {}", crate::verdict::excerpt(text));
        Rejection::of(RejectionReason::MalformedTimestamp, detail)
    })
}

fn parse_digits(field: &str, text: &[u8], most: usize, unit: &str) -> Result<i64, Rejection> {
    let plain = (1..=most).contains(&text.len()) && text.iter().all(u8::is_ascii_digit);
    if !plain {
        let detail = format!("{field} is not {unit} in 1 to {most} plain digits: {}", crate::verdict::excerpt(text));
        return Err(Rejection::of(RejectionReason::MalformedTimestamp, detail));
    }
    Ok(text.iter().fold(0, |value, digit| value * 10 + i64::from(digit - b'0')))
}

/// Both past and future are bounded, both ends included, compared in whole seconds as the official libraries do.
pub(crate) fn check_tolerance(signed_at_s: i64, now: UnixTime, tolerance_s: u32) -> Result<(), Rejection> {
    let age_s = now.as_secs().saturating_sub(signed_at_s);
    if age_s > i64::from(tolerance_s) {
        let detail = format!("timestamp is {age_s} s old, tolerance is {tolerance_s} s");
        return Err(Rejection::of(RejectionReason::TimestampTooOld, detail));
    }
    if age_s < -i64::from(tolerance_s) {
        let detail = format!("timestamp is {} s in the future, tolerance is {tolerance_s} s", age_s.unsigned_abs());
        return Err(Rejection::of(RejectionReason::TimestampInFuture, detail));
    }
    Ok(())
}
