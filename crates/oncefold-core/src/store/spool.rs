use super::StoreError;
use crate::message::Message;
use crate::time::Timestamp;
use async_trait::async_trait;
use std::sync::Arc;

/// Asks for spooled deliveries.
#[derive(Clone, Copy, Debug)]
pub struct ClaimSpooled {
    /// The present moment.
    pub now: Timestamp,
    /// Until when they are ours.
    pub lease_until: Timestamp,
    /// At most so many.
    pub limit: u32,
}

/// A spooled delivery.
#[derive(Clone, Debug)]
pub struct Spooled {
    /// Names it in the spool.
    pub sequence: i64,
    /// The event.
    pub message: Message,
}

/// The table that takes accepted deliveries while the broker cannot. Used by intake and by the relay.
#[async_trait]
pub trait SpoolStore: Send + Sync {
    /// Keeps the events; durable when it returns `Ok`. Set-based: one statement for all.
    async fn spool(&self, messages: &[Arc<Message>]) -> Result<(), StoreError>;

    /// Takes spooled events for sending: those that were never taken first, then those whose lease ran out first, so
    /// that what cannot be sent keeps nothing back; among equals the oldest first.
    async fn claim_spooled(&self, claim: ClaimSpooled) -> Result<Vec<Spooled>, StoreError>;

    /// Forgets events whose publish was confirmed.
    async fn remove_spooled(&self, sequences: &[i64]) -> Result<(), StoreError>;

    /// How many are spooled.
    async fn spool_depth(&self) -> Result<u64, StoreError>;
}
