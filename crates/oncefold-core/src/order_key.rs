//! Order keys: the total order of changes to one entity, as bytes. The higher key wins; that is the whole rule.

use crate::id::Digest;
use crate::limits::DIGEST_BYTES;
use std::fmt;

/// First byte of every key; raised if the layout ever changes.
const FORMAT: u8 = 1;
const AUTHORITY_DELIVERED: u8 = 1;
/// Bytes of the context's digest that are kept: enough to tell contexts apart, and only compared after all else.
const CONTEXT_BYTES: usize = 16;

/// What a key is made of, most significant first.
#[derive(Clone, Copy, Debug)]
pub struct OrderKeyParts<'a> {
    /// The number of the projection's rules of identity and order.
    pub epoch: u32,
    /// The class of terminal states, 0 for none.
    pub terminal: u16,
    /// Bytes from [`crate::version::read`]: self-delimiting, in the order of versions.
    pub version: &'a [u8],
    /// Whether the change deletes; at an equal version the delete wins.
    pub deleted: bool,
    /// Position in the projection's `rank`, 0 where unlisted.
    pub rank: u32,
    /// Digest of the input document's exact bytes.
    pub digest: Digest,
    /// Digest of everything else the change was made from (source, projection, event type, values outside the body):
    /// so that one key never stands for two states.
    pub context: Digest,
}

/// The position of a change in the total order of its entity's changes. `Ord` is the order of its bytes, which both
/// dialects compare.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OrderKey(Vec<u8>);

impl OrderKey {
    /// How many bytes stand behind the rank, at the end of every key: digest and context.
    pub const BELOW_RANK_BYTES: i32 = (DIGEST_BYTES + CONTEXT_BYTES) as i32;

    /// Format, epoch, terminal class, version, authority, deleted, rank, digest, context.
    pub fn encode(parts: &OrderKeyParts<'_>) -> Self {
        let mut bytes = Vec::with_capacity(parts.version.len() + 78);
        bytes.push(FORMAT);
        bytes.extend(parts.epoch.to_be_bytes());
        bytes.extend(parts.terminal.to_be_bytes());
        bytes.extend(parts.version);
        bytes.push(AUTHORITY_DELIVERED);
        bytes.extend(0u64.to_be_bytes());
        bytes.push(u8::from(parts.deleted));
        bytes.extend(parts.rank.to_be_bytes());
        bytes.extend(parts.digest.as_bytes());
        bytes.extend(&parts.context.as_bytes()[..CONTEXT_BYTES]);
        Self(bytes)
    }

    /// A key that was stored.
    pub fn from_bytes(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }

    /// Its bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Whether both are equal up to the rank: only the documents differ, or what else the changes were made from.
    pub fn ties_with(&self, other: &Self) -> bool {
        self.up_to_rank() == other.up_to_rank()
    }

    fn up_to_rank(&self) -> &[u8] {
        &self.0[..self.0.len().saturating_sub(DIGEST_BYTES + CONTEXT_BYTES)]
    }
}

impl fmt::Debug for OrderKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(&self.0))
    }
}
