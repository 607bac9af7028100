//! What a verification ends in.

use std::fmt;

/// The outcome of [`crate::Verifier::verify`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The delivery is what a holder of one of the secrets sent.
    Valid(Verified),
    /// It is not shown to be; it must not be processed.
    Invalid(Rejection),
}

impl Verdict {
    /// Whether the delivery may be processed.
    pub fn is_valid(&self) -> bool {
        matches!(self, Self::Valid(_))
    }
}

impl From<Result<Verified, Rejection>> for Verdict {
    fn from(result: Result<Verified, Rejection>) -> Self {
        result.map_or_else(Self::Invalid, Self::Valid)
    }
}

/// What is known of a delivery that verified.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Verified {
    /// Which of the source's secrets matched, counted from 0; none for scheme `none`.
    pub secret_index: Option<usize>,
    /// The signed timestamp in Unix seconds, where the scheme has one. This is the time of the attempt, not of the
    /// event: a retry carries a newer one, so it must never order events.
    pub signed_at_s: Option<i64>,
}

/// Why a delivery did not verify.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejection {
    /// The stable class, fit for a metric label.
    pub reason: RejectionReason,
    /// One line for the operator, at most [`Rejection::MAX_DETAIL`] bytes; holds no secret and no expected signature.
    pub detail: String,
}

impl Rejection {
    /// Upper bound of `detail` in bytes.
    pub const MAX_DETAIL: usize = 300;

    pub(crate) fn of(reason: RejectionReason, detail: impl Into<String>) -> Self {
        let mut detail = detail.into();
        if detail.len() > Self::MAX_DETAIL {
            let end = detail.floor_char_boundary(Self::MAX_DETAIL - "…".len());
            detail.truncate(end);
            detail.push('…');
        }
        Self { reason, detail }
    }
}

/// The closed set of rejection classes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RejectionReason {
    /// A header the scheme needs is not there.
    MissingHeader,
    /// A header that must be unique, or a field in it, is repeated.
    DuplicateHeader,
    /// A header cannot be read by the scheme's grammar.
    MalformedHeader,
    /// The signature is not text in the scheme's encoding.
    MalformedSignature,
    /// The timestamp is not in the scheme's form.
    MalformedTimestamp,
    /// The signed time is further in the past than the tolerance.
    TimestampTooOld,
    /// The signed time is further in the future than the tolerance.
    TimestampInFuture,
    /// No presented signature fits any of the secrets.
    NoMatchingSignature,
    /// The body, in which the scheme's signature stands, has none.
    MissingSignature,
    /// There is no body, and the scheme signs nothing else.
    EmptyBody,
    /// The body, in which the scheme looks for signed fields, is not in the scheme's form.
    MalformedBody,
    /// The body does not have the hash that is signed.
    BodyMismatch,
    /// A field that names where to ask, such as a certificate's URL, does not point to the provider.
    UntrustedUrl,
    /// The certificate that signed is not at hand, or is not the provider's.
    UntrustedCertificate,
    /// The sender is proven and is none that this source takes.
    WrongSender,
    /// The scheme signs the public URL and the source does not state it.
    MissingUrl,
    /// The token or the credentials are not there.
    MissingToken,
    /// The token or the credentials fit none of the secrets.
    WrongToken,
}

impl RejectionReason {
    /// Every reason, for registering metrics and writing docs.
    pub const ALL: [Self; 18] = [
        Self::MissingHeader,
        Self::DuplicateHeader,
        Self::MalformedHeader,
        Self::MalformedSignature,
        Self::MalformedTimestamp,
        Self::TimestampTooOld,
        Self::TimestampInFuture,
        Self::NoMatchingSignature,
        Self::MissingSignature,
        Self::EmptyBody,
        Self::MalformedBody,
        Self::BodyMismatch,
        Self::UntrustedUrl,
        Self::UntrustedCertificate,
        Self::WrongSender,
        Self::MissingUrl,
        Self::MissingToken,
        Self::WrongToken,
    ];

    /// The stable name: metric label and JSON `reason`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::MissingHeader => "missing_header",
            Self::DuplicateHeader => "duplicate_header",
            Self::MalformedHeader => "malformed_header",
            Self::MalformedSignature => "malformed_signature",
            Self::MalformedTimestamp => "malformed_timestamp",
            Self::TimestampTooOld => "timestamp_too_old",
            Self::TimestampInFuture => "timestamp_in_future",
            Self::NoMatchingSignature => "no_matching_signature",
            Self::MissingSignature => "missing_signature",
            Self::EmptyBody => "empty_body",
            Self::MalformedBody => "malformed_body",
            Self::BodyMismatch => "body_mismatch",
            Self::UntrustedUrl => "untrusted_url",
            Self::UntrustedCertificate => "untrusted_certificate",
            Self::WrongSender => "wrong_sender",
            Self::MissingUrl => "missing_url",
            Self::MissingToken => "missing_token",
            Self::WrongToken => "wrong_token",
        }
    }
}

impl fmt::Display for RejectionReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Longest piece of received bytes that a detail shows.
const EXCERPT_BYTES: usize = 24;

/// A short, escaped, quoted piece of received bytes: safe in a log line whatever they are.
pub(crate) fn excerpt(bytes: &[u8]) -> String {
    let shown = &bytes[..bytes.len().min(EXCERPT_BYTES)];
    let more = if shown.len() < bytes.len() { "…" } else { "" };
    format!("\"{}{more}\"", shown.escape_ascii())
}
