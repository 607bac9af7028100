//! Versions: what a projection orders changes by. A version is a tuple; each element is an exact number, an instant
//! or a text, encoded so that bytes compare as the values do.

use crate::limits::{VERSION_SKEW, VERSION_TEXT_BYTES_MAX};
use crate::locator::{Document, Locator};
use crate::number::Decimal;
use crate::reason::{Failure, Reason};
use crate::time::Timestamp;
use jiff::tz::TimeZone;
use serde_json::Value;

/// How one element of a version is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VersionRule {
    /// A value of the delivery. Without `kind` a JSON integer is a number and a string an instant.
    At {
        /// Where it stands.
        at: Locator,
        /// What it is, where that is stated.
        kind: Option<VersionKind>,
        /// The zone of instants that name none.
        zone: Option<TimeZone>,
    },
    /// The creation time inside the KSUID that stands there (4 ms resolution, as Svix makes them).
    Ksuid(Locator),
    /// When the first delivery was recorded: a last resort, it says nothing about the order at the provider.
    ReceivedAt,
}

impl VersionRule {
    /// The place it looks at, if any.
    pub const fn place(&self) -> Option<&Locator> {
        match self {
            Self::At { at, .. } | Self::Ksuid(at) => Some(at),
            Self::ReceivedAt => None,
        }
    }

    /// The rule as a text that stays the same while the rule does; part of the stored fingerprint.
    pub fn describe(&self) -> String {
        match self {
            Self::ReceivedAt => "received_at".to_owned(),
            Self::Ksuid(at) => format!("ksuid:{at}"),
            Self::At { at, kind, zone } => {
                let kind = kind.map_or(String::new(), |k| format!(" {}", k.as_str()));
                let zone = zone.as_ref().and_then(TimeZone::iana_name).map_or(String::new(), |z| format!(" {z}"));
                format!("{at}{kind}{zone}")
            }
        }
    }
}

/// The type of one element of a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VersionKind {
    /// An integer, as number or text.
    Int,
    /// An exact decimal number, as number or text.
    Decimal,
    /// A text, compared by its UTF-8 bytes.
    Text,
    /// An RFC 3339 instant.
    Instant,
    /// Seconds since the Unix epoch, as number or text, fractions allowed.
    UnixS,
    /// Milliseconds since the Unix epoch, as number or text, fractions allowed.
    UnixMs,
}

impl VersionKind {
    /// Its name in the config.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Int => "int",
            Self::Decimal => "decimal",
            Self::Text => "text",
            Self::Instant => "instant",
            Self::UnixS => "unix_s",
            Self::UnixMs => "unix_ms",
        }
    }

    /// The type of this name in the config.
    pub fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "int" => Self::Int,
            "decimal" => Self::Decimal,
            "text" => Self::Text,
            "instant" => Self::Instant,
            "unix_s" => Self::UnixS,
            "unix_ms" => Self::UnixMs,
            _ => return None,
        })
    }
}

/// A version as it is shown, and as it is compared.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Version {
    /// Its elements, each in one normal form, joined by a space.
    pub shown: String,
    /// Bytes that compare as versions do; no version's bytes are a prefix of another's.
    pub ordered: Vec<u8>,
}

const TAG_INSTANT: u8 = 0x20;
const TAG_TEXT: u8 = 0x30;
const END: u8 = 0x00;

/// Reads the version that `rules` state.
///
/// # Errors
/// `mapping.missing_version`, `mapping.bad_version`, or `mapping.future_version` for an instant more than
/// [`VERSION_SKEW`] after `received_at`.
pub fn read(rules: &[VersionRule], document: &Document<'_>, received_at: Timestamp) -> Result<Version, Failure> {
    let mut version = Version::default();
    for rule in rules {
        if !version.shown.is_empty() {
            version.shown.push(' ');
        }
        match element(rule, document, received_at)? {
            Element::Number(number) => {
                version.shown.push_str(&number.canonical());
                number.encode_ordered(&mut version.ordered);
            }
            Element::Instant(instant) => {
                refuse_future(instant, received_at, rule)?;
                version.shown.push_str(&instant.to_string());
                encode_instant(instant, &mut version.ordered);
            }
            Element::Text(text) => {
                version.shown.push_str(&crate::json::without_nul(&text));
                version.ordered.push(TAG_TEXT);
                version.ordered.extend(text.bytes().flat_map(|b| if b == 0 { vec![0x00, 0xFF] } else { vec![b] }));
                version.ordered.extend([0x00, 0x00]);
            }
        }
    }
    version.ordered.push(END);
    Ok(version)
}

/// The value of a state's field of this type: an exact number, or an instant as RFC 3339 in UTC. Nothing where the
/// value is not of the type.
pub fn field(value: &Value, kind: VersionKind) -> Option<Value> {
    let rule = VersionRule::At { at: Locator::Pointer(vec![]), kind: Some(kind), zone: None };
    match typed(&rule, value, Some(kind), None).ok()? {
        Element::Number(number) => crate::json::canonical_number(&number.canonical()).ok().map(Value::Number),
        Element::Instant(instant) => Some(Value::String(instant.to_string())),
        Element::Text(text) => Some(Value::String(crate::json::without_nul(&text))),
    }
}

enum Element {
    Number(Decimal),
    Instant(jiff::Timestamp),
    Text(String),
}

fn element(rule: &VersionRule, document: &Document<'_>, received_at: Timestamp) -> Result<Element, Failure> {
    match rule {
        VersionRule::ReceivedAt => jiff::Timestamp::from_microsecond(received_at.as_micros())
            .map(Element::Instant)
            .map_err(|_| bad(rule, "the time of receipt is out of range")),
        VersionRule::Ksuid(at) => {
            let value = present(rule, at, document)?;
            let text = value.as_str().ok_or_else(|| bad(rule, "is not text"))?;
            ksuid_instant(text).map(Element::Instant).ok_or_else(|| bad(rule, "is not a KSUID"))
        }
        VersionRule::At { at, kind, zone } => {
            let value = present(rule, at, document)?;
            typed(rule, &value, *kind, zone.as_ref())
        }
    }
}

fn present(rule: &VersionRule, at: &Locator, document: &Document<'_>) -> Result<Value, Failure> {
    match at.find(document) {
        None => Err(Failure::of(Reason::MissingVersion, format!("version {} is absent", name(rule)))),
        Some(value) if value.is_null() => {
            Err(Failure::of(Reason::MissingVersion, format!("version {} is null", name(rule))))
        }
        Some(value) => Ok(value.into_owned()),
    }
}

fn typed(
    rule: &VersionRule,
    value: &Value,
    kind: Option<VersionKind>,
    zone: Option<&TimeZone>,
) -> Result<Element, Failure> {
    let kind = match (kind, value) {
        (Some(kind), _) => kind,
        (None, Value::Number(_)) => VersionKind::Int,
        (None, Value::String(_)) => VersionKind::Instant,
        _ => return Err(bad(rule, "is neither an integer nor a text")),
    };
    let text = match value {
        Value::Number(number) if !matches!(kind, VersionKind::Text | VersionKind::Instant) => number.to_string(),
        Value::String(text) => text.clone(),
        _ => return Err(bad(rule, "is not of the type its rule states")),
    };
    match kind {
        VersionKind::Int | VersionKind::Decimal => {
            let number = Decimal::parse(&text).map_err(|e| bad(rule, &e.to_string()))?;
            let fits = kind == VersionKind::Decimal || (number.is_integer() && !text.contains(['.', 'e', 'E']));
            if fits { Ok(Element::Number(number)) } else { Err(bad(rule, "is not an integer")) }
        }
        VersionKind::Text if text.len() > VERSION_TEXT_BYTES_MAX => {
            Err(bad(rule, &format!("is {} bytes long, at most {VERSION_TEXT_BYTES_MAX} are kept", text.len())))
        }
        VersionKind::Text => Ok(Element::Text(text)),
        VersionKind::Instant => {
            instant(&text, zone).map(Element::Instant).ok_or_else(|| bad(rule, "is not an RFC 3339 instant"))
        }
        VersionKind::UnixS => unix(&text, 9).map(Element::Instant).ok_or_else(|| bad(rule, "is not Unix seconds")),
        VersionKind::UnixMs => {
            unix(&text, 6).map(Element::Instant).ok_or_else(|| bad(rule, "is not Unix milliseconds"))
        }
    }
}

fn instant(text: &str, zone: Option<&TimeZone>) -> Option<jiff::Timestamp> {
    if let Ok(instant) = text.parse::<jiff::Timestamp>() {
        return Some(instant);
    }
    let civil: jiff::civil::DateTime = text.parse().ok()?;
    zone?.to_timestamp(civil).ok()
}

/// An instant from a decimal count of units of which one is `10^power` nanoseconds; digits past that are refused.
fn unix(text: &str, power: usize) -> Option<jiff::Timestamp> {
    let canonical = Decimal::parse(text).ok()?.canonical();
    let (whole, fraction) = canonical.split_once('.').unwrap_or((&canonical, ""));
    if fraction.len() > power {
        return None;
    }
    let nanos: i128 = format!("{whole}{fraction:0<power$}").parse().ok()?;
    jiff::Timestamp::from_nanosecond(nanos).ok()
}

/// The time in a KSUID: after an optional `prefix_`, 27 base62 digits of 20 bytes; 4 bytes of seconds since
/// 2014-05-13T16:53:20Z and, in Svix's KsuidMs, a byte of 4 ms units.
fn ksuid_instant(text: &str) -> Option<jiff::Timestamp> {
    const DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    const KSUID_EPOCH_S: i64 = 1_400_000_000;
    let ksuid = text.rsplit('_').next()?;
    if ksuid.len() != 27 {
        return None;
    }
    let mut bytes = [0u8; 20];
    for digit in ksuid.bytes() {
        let mut carry = u32::try_from(DIGITS.iter().position(|d| *d == digit)?).ok()?;
        for byte in bytes.iter_mut().rev() {
            let value = u32::from(*byte) * 62 + carry;
            *byte = u8::try_from(value & 0xFF).ok()?;
            carry = value >> 8;
        }
        if carry != 0 {
            return None;
        }
    }
    let seconds = u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    jiff::Timestamp::from_millisecond((i64::from(seconds) + KSUID_EPOCH_S) * 1_000 + i64::from(bytes[4]) * 4).ok()
}

fn refuse_future(instant: jiff::Timestamp, received_at: Timestamp, rule: &VersionRule) -> Result<(), Failure> {
    let ahead_us = instant.as_microsecond().saturating_sub(received_at.as_micros());
    if ahead_us <= i64::try_from(VERSION_SKEW.as_micros()).unwrap_or(i64::MAX) {
        return Ok(());
    }
    let message = format!(
        "version {} lies {} s after the time of receipt, at most {} s are taken",
        name(rule),
        ahead_us / 1_000_000,
        VERSION_SKEW.as_secs()
    );
    Err(Failure::of(Reason::FutureVersion, message))
}

fn encode_instant(instant: jiff::Timestamp, out: &mut Vec<u8>) {
    out.push(TAG_INSTANT);
    let nanos = instant.as_nanosecond();
    out.extend((nanos.cast_unsigned() ^ (1 << 127)).to_be_bytes());
}

fn name(rule: &VersionRule) -> String {
    match rule {
        VersionRule::At { at, .. } | VersionRule::Ksuid(at) => at.to_string(),
        VersionRule::ReceivedAt => "received_at".to_owned(),
    }
}

fn bad(rule: &VersionRule, what: &str) -> Failure {
    Failure::of(Reason::BadVersion, format!("version {} {what}", name(rule)))
}

#[cfg(test)]
#[path = "version_tests.rs"]
mod tests;
