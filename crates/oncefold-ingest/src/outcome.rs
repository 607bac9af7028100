//! How a delivery ends: the closed set behind `oncefold_ingest_deliveries_total{outcome}`.

/// How a delivery ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// Verified, and the queue has it.
    Accepted,
    /// Verified, and the spool has it.
    Spooled,
    /// A request by which the provider tests the endpoint; answered, and no event.
    Handshake,
    /// The signature is missing, wrong or too old.
    Rejected,
    /// There is no such source.
    UnknownSource,
    /// The source does not take this method.
    WrongMethod,
    /// The body is encoded in a way the source does not allow.
    UnsupportedEncoding,
    /// The body is over the limit.
    TooLarge,
    /// The body came too slowly.
    TooSlow,
    /// The body is not framed as HTTP says.
    Malformed,
    /// The client went away before its body was complete.
    Disconnected,
    /// More bytes are in hand than the role may hold.
    Overloaded,
    /// Verified, but neither the queue nor the spool took it.
    Unavailable,
}

impl Outcome {
    /// The metric label and log value.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Accepted => "accepted",
            Self::Spooled => "spooled",
            Self::Handshake => "handshake",
            Self::Rejected => "rejected",
            Self::UnknownSource => "unknown_source",
            Self::WrongMethod => "wrong_method",
            Self::UnsupportedEncoding => "unsupported_encoding",
            Self::TooLarge => "too_large",
            Self::TooSlow => "too_slow",
            Self::Malformed => "malformed",
            Self::Disconnected => "disconnected",
            Self::Overloaded => "overloaded",
            Self::Unavailable => "unavailable",
        }
    }
}
