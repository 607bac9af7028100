//! Identities: the event's UUID, the names of sources and entity kinds, and the digest of exact bytes.

use crate::time::{Entropy, Timestamp};
use serde::Serialize;
use sha2::{Digest as _, Sha256};
use std::{fmt, sync::Arc};
use thiserror::Error;

/// The id of one recorded event: a UUIDv7 (RFC 9562, section 5.7) made at ingest from `received_at` and randomness.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EventUuid(uuid::Uuid);

impl EventUuid {
    /// The id of an event received at `received_at`.
    pub fn generate(received_at: Timestamp, entropy: &dyn Entropy) -> Self {
        let mut random = [0; 10];
        entropy.fill(&mut random);
        let millis = u64::try_from(received_at.as_millis()).unwrap_or(0);
        Self(uuid::Builder::from_unix_timestamp_millis(millis, &random).into_uuid())
    }

    /// The lowest id an event received at `at` can have: the start of an id range.
    pub fn lowest_at(at: Timestamp) -> Self {
        let millis = u64::try_from(at.as_millis()).unwrap_or(0) & 0xFFFF_FFFF_FFFF;
        Self(uuid::Uuid::from_u128(u128::from(millis) << 80))
    }

    /// The id with these bytes.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(uuid::Uuid::from_bytes(bytes))
    }

    /// Its 16 bytes, in an order that follows time.
    pub const fn as_bytes(&self) -> &[u8; 16] {
        self.0.as_bytes()
    }

    /// The value as the `uuid` crate has it.
    pub const fn as_uuid(&self) -> uuid::Uuid {
        self.0
    }

    /// Reads the hyphenated or plain text form.
    pub fn parse(text: &str) -> Option<Self> {
        uuid::Uuid::try_parse(text).ok().map(Self)
    }
}

impl From<uuid::Uuid> for EventUuid {
    fn from(value: uuid::Uuid) -> Self {
        Self(value)
    }
}

impl fmt::Display for EventUuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.hyphenated().fmt(f)
    }
}

impl fmt::Debug for EventUuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for EventUuid {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Why a text is not a name.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum NameError {
    /// Not a source name.
    #[error("`{0}` is not a source name: use 1 to 64 of a-z, 0-9, `_` and `-`")]
    Source(String),
    /// Not an entity kind.
    #[error("`{0}` is not an entity kind: use a lower-case letter, then up to 62 of a-z, 0-9 and `_`")]
    Entity(String),
}

/// The name of a source: `[a-z0-9_-]{1,64}`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct SourceName(Arc<str>);

impl SourceName {
    /// Checks the text.
    ///
    /// # Errors
    /// When it is not 1 to 64 of `a-z 0-9 _ -`.
    pub fn parse(text: &str) -> Result<Self, NameError> {
        let fits = (1..=64).contains(&text.len())
            && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_' || b == b'-');
        if fits { Ok(Self(text.into())) } else { Err(NameError::Source(excerpt(text))) }
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The kind of an entity: `[a-z][a-z0-9_]{0,62}`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct EntityKind(Arc<str>);

impl EntityKind {
    /// Checks the text.
    ///
    /// # Errors
    /// When it is not a lower-case letter and up to 62 of `a-z 0-9 _`.
    pub fn parse(text: &str) -> Result<Self, NameError> {
        let fits = (1..=63).contains(&text.len())
            && text.as_bytes()[0].is_ascii_lowercase()
            && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
        if fits { Ok(Self(text.into())) } else { Err(NameError::Entity(excerpt(text))) }
    }

    /// The kind.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn excerpt(text: &str) -> String {
    text.chars().take(80).flat_map(char::escape_default).collect()
}

macro_rules! shown_as_text {
    ($($name:ty),*) => { $(
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.0, f)
            }
        }
    )* };
}
shown_as_text!(SourceName, EntityKind);

/// SHA-256 of exact bytes: of a body or element as it arrived, never of re-serialised JSON.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; 32]);

impl Digest {
    /// The digest of `bytes`.
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// A digest that was worked out before.
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Reads 64 hex digits.
    pub fn parse_hex(text: &str) -> Option<Self> {
        let mut bytes = [0; 32];
        hex::decode_to_slice(text, &mut bytes).ok().map(|()| Self(bytes))
    }

    /// Its 32 bytes.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// 64 lower-case hex digits.
    pub fn to_hex(&self) -> String {
        hex::encode(self.0)
    }
}

impl TryFrom<&[u8]> for Digest {
    type Error = std::array::TryFromSliceError;
    fn try_from(bytes: &[u8]) -> Result<Self, Self::Error> {
        bytes.try_into().map(Self)
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_hex())
    }
}
