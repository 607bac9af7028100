//! HMAC with the key set up once: a request clones the keyed state and streams into it.

use hmac::{Hmac, KeyInit, Mac};
use sha1::Sha1;
use sha2::{Sha256, Sha512};
use std::fmt;
use std::str::FromStr;
use subtle::ConstantTimeEq;

/// Hash function of an HMAC (RFC 2104).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HmacAlgorithm {
    /// HMAC-SHA-1, for providers that offer nothing better.
    Sha1,
    /// HMAC-SHA-256.
    #[default]
    Sha256,
    /// HMAC-SHA-512.
    Sha512,
}

impl HmacAlgorithm {
    /// Length of the tag in bytes.
    pub const fn tag_len(self) -> usize {
        match self {
            Self::Sha1 => 20,
            Self::Sha256 => 32,
            Self::Sha512 => 64,
        }
    }

    /// The name in the config.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Sha1 => "sha1",
            Self::Sha256 => "sha256",
            Self::Sha512 => "sha512",
        }
    }
}

impl FromStr for HmacAlgorithm {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "sha1" => Ok(Self::Sha1),
            "sha256" => Ok(Self::Sha256),
            "sha512" => Ok(Self::Sha512),
            other => Err(format!("unknown algorithm {other:?}; one of sha1, sha256, sha512")),
        }
    }
}

/// A keyed, empty HMAC, or one that is being fed.
#[derive(Clone)]
pub(crate) enum KeyedMac {
    Sha1(Hmac<Sha1>),
    Sha256(Hmac<Sha256>),
    Sha512(Hmac<Sha512>),
}

/// Tags are kept here whatever their length.
const LONGEST_TAG: usize = 64;

/// A computed tag. A verifier only compares it; signing hands it out.
pub(crate) struct Tag {
    bytes: [u8; LONGEST_TAG],
    len: usize,
}

impl Tag {
    fn from_slice(tag: &[u8]) -> Self {
        let mut bytes = [0; LONGEST_TAG];
        bytes[..tag.len()].copy_from_slice(tag);
        Self { bytes, len: tag.len() }
    }

    pub(crate) fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// Constant time in the content; the lengths are public.
    pub(crate) fn equals(&self, presented: &[u8]) -> bool {
        bool::from(self.as_slice().ct_eq(presented))
    }
}

impl KeyedMac {
    pub(crate) fn keyed(algorithm: HmacAlgorithm, key: &[u8]) -> Self {
        match algorithm {
            HmacAlgorithm::Sha1 => Self::Sha1(keyed(key)),
            HmacAlgorithm::Sha256 => Self::Sha256(keyed(key)),
            HmacAlgorithm::Sha512 => Self::Sha512(keyed(key)),
        }
    }

    pub(crate) fn update(&mut self, bytes: &[u8]) {
        match self {
            Self::Sha1(mac) => mac.update(bytes),
            Self::Sha256(mac) => mac.update(bytes),
            Self::Sha512(mac) => mac.update(bytes),
        }
    }

    pub(crate) fn finish(self) -> Tag {
        match self {
            Self::Sha1(mac) => Tag::from_slice(&mac.finalize().into_bytes()),
            Self::Sha256(mac) => Tag::from_slice(&mac.finalize().into_bytes()),
            Self::Sha512(mac) => Tag::from_slice(&mac.finalize().into_bytes()),
        }
    }

    /// The tag over some parts, one after the other.
    pub(crate) fn over(&self, parts: &[&[u8]]) -> Tag {
        let mut mac = self.clone();
        parts.iter().for_each(|part| mac.update(part));
        mac.finish()
    }
}

#[expect(clippy::expect_used, reason = "RFC 2104 takes a key of any length")]
fn keyed<M: KeyInit>(key: &[u8]) -> M {
    M::new_from_slice(key).expect("HMAC takes a key of any length")
}

impl fmt::Debug for KeyedMac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyedMac(…)")
    }
}
