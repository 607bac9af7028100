//! Why a signature does not fit: details for rejections, and the expensive trials behind `Verifier::diagnose`.

mod body_forms;
mod urls;

use crate::encoding;
use crate::request::Request;
use crate::schemes::hmac::KeyEncoding;
use crate::schemes::signed_time::TimestampFormat;
use crate::secret::Secret;
use crate::time::{UnixTime, parse_rfc3339};
use crate::verdict::{Rejection, RejectionReason, excerpt};

/// The signature is not in the expected form; says in which form it seems to be, without showing it.
pub(crate) fn malformed_signature(field: &str, text: &[u8], expected: &str) -> Rejection {
    let detail = format!("{field} holds {}, expected {expected}", shape(text));
    Rejection::of(RejectionReason::MalformedSignature, detail)
}

fn shape(text: &[u8]) -> String {
    if text.is_empty() {
        return "nothing".to_owned();
    }
    let case = if text.iter().any(u8::is_ascii_uppercase) { "hex with upper-case letters" } else { "lower-case hex" };
    match encoding::readings(text).first() {
        Some(("hex", bytes)) => format!("{case} of {} bytes", bytes.len()),
        Some((name, bytes)) => format!("{name} of {} bytes", bytes.len()),
        None => format!("{} characters that are neither hex nor base64", text.len()),
    }
}

/// What was presented fits none of the secrets.
pub(crate) fn no_match(presented: &str, secrets: usize) -> Rejection {
    let count =
        if secrets == 1 { "the secret does not fit".to_owned() } else { format!("none of {secrets} secrets fits") };
    Rejection::of(RejectionReason::NoMatchingSignature, format!("{count} {presented}"))
}

/// Header names that are listed where one is missing.
const MOST_NAMES: usize = 8;

/// What stands where a header was looked for: repeats, or other headers that seem to carry a signature.
pub(crate) fn about_header(name: &str, req: &Request<'_>) -> Vec<String> {
    if req.has_header(name) {
        return Vec::new();
    }
    let looks_right = |given: &str| {
        let given = given.to_ascii_lowercase();
        ["signature", "hmac", "webhook", "svix", "token"].iter().any(|word| given.contains(word))
    };
    let names = req.headers.iter().map(|(given, _)| *given).filter(|given| looks_right(given));
    let names: Vec<_> = names.take(MOST_NAMES).map(|given| excerpt(given.as_bytes())).collect();
    if names.is_empty() {
        vec![format!("no header of the request looks like {name}: does the sender sign, or does a proxy drop it?")]
    } else {
        vec![format!("instead of {name} the request has {}: is this the right scheme or preset?", names.join(", "))]
    }
}

/// Longest distance of a time zone from UTC.
const MOST_ZONE_HOURS: u64 = 14;
/// How close to whole hours a difference has to be to look like a time zone.
const ZONE_SLACK_S: u64 = 300;

/// What a refused timestamp seems to be: of another unit, or a local time taken for UTC.
pub(crate) fn about_clock(
    timestamp: Option<&[u8]>,
    format: TimestampFormat,
    now: UnixTime,
    rejection: &Rejection,
) -> Option<String> {
    use RejectionReason as R;
    if !matches!(rejection.reason, R::TimestampTooOld | R::TimestampInFuture | R::MalformedTimestamp) {
        return None;
    }
    let text = std::str::from_utf8(timestamp?).ok()?;
    let number = || text.parse::<i64>().ok();
    let (taken_s, other) = match format {
        TimestampFormat::UnixSeconds => (number()?, Some(("milliseconds", number()? / 1000))),
        TimestampFormat::UnixMillis => (number()? / 1000, Some(("seconds", number()?))),
        TimestampFormat::Rfc3339 => (parse_rfc3339("", text.as_bytes()).ok()?, None),
    };
    let distance_s = |seconds: i64| now.as_secs().saturating_sub(seconds).unsigned_abs();
    let off_s = distance_s(taken_s);
    if let Some((unit, _)) = other.filter(|(_, seconds)| distance_s(*seconds) < ZONE_SLACK_S && off_s > ZONE_SLACK_S) {
        return Some(format!("taken as {unit} the timestamp is near the given time: the sender's unit differs"));
    }
    let hours = off_s.saturating_add(ZONE_SLACK_S) / 3600;
    let whole = off_s.abs_diff(hours.saturating_mul(3600)) < ZONE_SLACK_S;
    ((1..=MOST_ZONE_HOURS).contains(&hours) && whole)
        .then(|| format!("the timestamp is off by almost exactly {hours} h: a local time may have been taken for UTC"))
}

/// A signature that was refused, tried again with other keys and bodies.
pub(crate) struct Trial<'a> {
    pub(crate) secrets: &'a [Secret],
    pub(crate) configured: KeyEncoding,
    /// Whether the public URL is signed.
    pub(crate) signs_url: bool,
    /// Whether a presented signature, in whatever encoding, fits the request under this key of the secret with this
    /// index.
    pub(crate) fits: &'a dyn Fn(usize, &[u8], &Request<'_>) -> bool,
}

impl Trial<'_> {
    /// One line for what was found.
    pub(crate) fn explain(&self, req: &Request<'_>, rejection: &Rejection) -> Vec<String> {
        use RejectionReason as R;
        match rejection.reason {
            R::NoMatchingSignature | R::MalformedSignature | R::TimestampTooOld | R::TimestampInFuture => {}
            _ => return Vec::new(),
        }
        let found = self.other_keys(req, rejection.reason);
        let found = found.or_else(|| self.other_urls(req)).or_else(|| self.other_bodies(req));
        let nothing = "under no other reading of the secrets or the body does the signature fit: most likely the secret is \
                       another one's, or the body was changed on its way";
        vec![found.unwrap_or_else(|| nothing.to_owned())]
    }

    /// Whether a secret fits as it is configured.
    pub(crate) fn fits_configured(&self, index: usize, req: &Request<'_>) -> bool {
        let secret = self.secrets.get(index);
        secret.is_some_and(|secret| (self.fits)(index, &configured_key(secret, self.configured), req))
    }

    fn other_keys(&self, req: &Request<'_>, reason: RejectionReason) -> Option<String> {
        for (index, secret) in self.secrets.iter().enumerate() {
            if self.fits_configured(index, req) {
                return Some(fits_as_configured(index, reason));
            }
            for (how, key) in key_readings(secret) {
                if (self.fits)(index, &key, req) {
                    let configured = self.configured.as_str();
                    return Some(format!(
                        "the sender takes secrets[{index}] {how}, this source takes it as {configured}: wrong scheme, preset or `key_encoding`"
                    ));
                }
            }
        }
        None
    }

    fn other_urls(&self, req: &Request<'_>) -> Option<String> {
        let stated = req.url.filter(|_| self.signs_url)?;
        for url in urls::of(req) {
            let signed = Request { url: Some(&url), ..*req };
            for (index, secret) in self.secrets.iter().enumerate() {
                if (self.fits)(index, &configured_key(secret, self.configured), &signed) {
                    let (signed, stated) = (shown_url(&url), shown_url(stated));
                    return Some(format!(
                        "signed URL differs: the sender signed {signed}, this source states {stated}; set `url` to what the provider was given"
                    ));
                }
            }
        }
        None
    }

    fn other_bodies(&self, req: &Request<'_>) -> Option<String> {
        let forms = body_forms::of(req.body);
        for (index, secret) in self.secrets.iter().enumerate() {
            let key = configured_key(secret, self.configured);
            for (how, body) in &forms {
                if (self.fits)(index, &key, &Request { body, ..*req }) {
                    return Some(format!(
                        "body changed: the signature fits secrets[{index}] and the body {how}; something between the sender and here rewrites bodies"
                    ));
                }
            }
        }
        None
    }
}

fn fits_as_configured(index: usize, reason: RejectionReason) -> String {
    match reason {
        RejectionReason::TimestampTooOld | RejectionReason::TimestampInFuture => format!(
            "the signature itself fits secrets[{index}]: a late or replayed delivery, or a clock is off (for a captured request, give the time it came)"
        ),
        _ => format!("the signature fits secrets[{index}] but is written in another encoding, or without the prefix"),
    }
}

/// Longest piece of a URL that is shown.
const URL_BYTES: usize = 300;

fn shown_url(url: &str) -> String {
    let shown = &url.as_bytes()[..url.len().min(URL_BYTES)];
    let more = if shown.len() < url.len() { "…" } else { "" };
    format!("\"{}{more}\"", shown.escape_ascii())
}

const WHSEC: &str = "whsec_";

fn configured_key(secret: &Secret, encoding: KeyEncoding) -> Vec<u8> {
    let text = secret.text();
    let decoded = encoding.decode(text).or_else(|| encoding.decode(text.strip_prefix(WHSEC)?));
    decoded.unwrap_or_default()
}

fn key_readings(secret: &Secret) -> Vec<(&'static str, Vec<u8>)> {
    let text = secret.text();
    let bare = text.strip_prefix(WHSEC);
    let decodable = bare.unwrap_or(text);
    let literal = ("as literal text", text.as_bytes().to_vec());
    let behind = bare.map(|bare| ("as literal text behind whsec_", bare.as_bytes().to_vec()));
    let base64 = encoding::key_from_base64(decodable).map(|key| ("decoded as base64", key));
    let hex = hex::decode(decodable).ok().map(|key| ("decoded as hex", key));
    let newline = ("as literal text with a newline after it", format!("{text}\n").into_bytes());
    let html = encoding::html_escaped(text);
    let html = (html != text).then(|| ("with HTML entities, as WooCommerce did before 3.6", html.into_bytes()));
    [Some(literal), behind, base64, hex, Some(newline), html].into_iter().flatten().collect()
}

#[cfg(test)]
mod tests;
