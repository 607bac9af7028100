//! Time as a value: a moment in microseconds, and the two things only the binary may really have: a clock and
//! a source of randomness.

use serde::{Serialize, Serializer};
use std::time::Duration;

/// A moment, in whole microseconds since 1970-01-01T00:00:00Z. Both dialects store it as that integer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(i64);

impl Timestamp {
    /// The moment `micros` microseconds after the Unix epoch.
    pub const fn from_micros(micros: i64) -> Self {
        Self(micros)
    }

    /// Microseconds since the Unix epoch.
    pub const fn as_micros(self) -> i64 {
        self.0
    }

    /// Whole milliseconds since the Unix epoch, rounded down.
    pub const fn as_millis(self) -> i64 {
        self.0.div_euclid(1_000)
    }

    /// Whole seconds since the Unix epoch, rounded down.
    pub const fn as_seconds(self) -> i64 {
        self.0.div_euclid(1_000_000)
    }

    /// This moment, `by` later; stays at the largest moment where that cannot be held.
    #[must_use]
    pub fn plus(self, by: Duration) -> Self {
        Self(self.0.saturating_add(i64::try_from(by.as_micros()).unwrap_or(i64::MAX)))
    }

    /// This moment, `by` earlier.
    #[must_use]
    pub fn minus(self, by: Duration) -> Self {
        Self(self.0.saturating_sub(i64::try_from(by.as_micros()).unwrap_or(i64::MAX)))
    }

    /// How long ago `earlier` was; zero where it is not earlier.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }

    /// RFC 3339 in UTC with microseconds, as the API shows it.
    pub fn to_rfc3339(self) -> String {
        jiff::Timestamp::from_microsecond(self.0).map_or_else(|_| format!("{}us", self.0), |t| format!("{t:.6}"))
    }

    /// Reads RFC 3339 (any offset) or whole Unix seconds.
    pub fn parse(text: &str) -> Option<Self> {
        if !text.is_empty() && text.len() <= 12 && text.bytes().all(|b| b.is_ascii_digit()) {
            return text.parse::<i64>().ok()?.checked_mul(1_000_000).map(Self);
        }
        text.parse::<jiff::Timestamp>().ok().map(|t| Self(t.as_microsecond()))
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.to_rfc3339())
    }
}

/// Where "now" comes from. The binary has the only one that reads the wall clock.
pub trait Clock: Send + Sync {
    /// The present moment.
    fn now(&self) -> Timestamp;
}

/// Where randomness comes from. The binary has the only one that asks the operating system.
pub trait Entropy: Send + Sync {
    /// Fills `bytes` with random bytes.
    fn fill(&self, bytes: &mut [u8]);

    /// A random number, every value equally likely.
    fn next_u64(&self) -> u64 {
        let mut bytes = [0; 8];
        self.fill(&mut bytes);
        u64::from_le_bytes(bytes)
    }
}
