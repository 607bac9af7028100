//! Why an event could not be applied: a closed, dotted vocabulary (contract.md, "Failure reasons").

use crate::limits::FAILURE_MESSAGE_BYTES_MAX;
use std::fmt;

macro_rules! reasons {
    ($($(#[doc = $doc:literal])* $name:ident = $text:literal),* $(,)?) => {
        /// A failure reason. Its text is a metric label, an API value and a filter: it never changes.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Reason { $($(#[doc = $doc])* $name),* }

        impl Reason {
            /// Every reason there is.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// The dotted text.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$name => $text),* }
            }
        }
    };
}

reasons! {
    /// The verified body is not JSON (RFC 8259, UTF-8), or nests deeper than the limit.
    InvalidJson = "mapping.invalid_json",
    /// The source's id rule finds nothing, or something that is not text.
    MissingId = "mapping.missing_id",
    /// The event id is too long or holds a NUL.
    BadId = "mapping.bad_id",
    /// The source's type rule finds nothing.
    MissingType = "mapping.missing_type",
    /// The event type is not text, too long or holds a NUL.
    BadType = "mapping.bad_type",
    /// A part of the entity key is absent, null or empty.
    MissingKey = "mapping.missing_key",
    /// The entity key is too long, holds a NUL, or a part of it is an object or array.
    BadKey = "mapping.bad_key",
    /// A part of the version is absent or null.
    MissingVersion = "mapping.missing_version",
    /// A part of the version is not of the stated type.
    BadVersion = "mapping.bad_version",
    /// An instant in the version lies further in the future than clocks may differ.
    FutureVersion = "mapping.future_version",
    /// A number has more digits than the limit, or a field of a numeric type is not a number.
    BadNumber = "mapping.bad_number",
    /// A field is not of the type its projection states.
    UnknownValue = "mapping.unknown_value",
    /// No source of this name is configured any more.
    UnknownSource = "config.unknown_source",
    /// Workers died on this message again and again.
    DeliveryLimit = "poison.delivery_limit",
    /// The database refuses these values for good (SQLSTATE class 22 or 23).
    ApplyRejected = "apply.rejected",
    /// The database failed on this event alone; it is tried again.
    ApplyFailed = "apply.failed",
}

impl Reason {
    /// The reason with this text.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|r| r.as_str() == text)
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A reason with a bounded sentence for a person. The sentence never holds a body, a secret or a signature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Which of the closed reasons.
    pub reason: Reason,
    /// What happened and where, at most [`FAILURE_MESSAGE_BYTES_MAX`] bytes.
    pub message: String,
}

impl Failure {
    /// A failure whose message is cut to the limit, NULs replaced.
    pub fn of(reason: Reason, message: impl Into<String>) -> Self {
        let mut message: String = message.into().replace('\0', "\u{FFFD}");
        if message.len() > FAILURE_MESSAGE_BYTES_MAX {
            let end = (0..=FAILURE_MESSAGE_BYTES_MAX - 3).rev().find(|i| message.is_char_boundary(*i)).unwrap_or(0);
            message.truncate(end);
            message.push('…');
        }
        Self { reason, message }
    }
}
