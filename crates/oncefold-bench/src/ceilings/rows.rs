//! What the worker's rows hold, made the shortest way: the same columns with values of the same length.

use crate::event::{self, Parsed};
use anyhow::{Context as _, Result};
use sha2::{Digest as _, Sha256};
use std::collections::HashMap;
use uuid::Uuid;

/// Facts as the product keeps them of the bench's deliveries (the trace is another one each time there).
pub const FACTS: &str = r#"{"trace_id":"0123456789abcdef0123456789abcdef","content_type":"application/json","headers":[["host","127.0.0.1"],["content-type","application/json"],["content-length","1536"]],"scheme":"hmac","secret_index":0}"#;
/// Every verdict: telling them apart would need the entities' rows first.
pub const VERDICT: &str = "applied";
/// Bytes of the product's order keys before the version and between it and the digest.
const ORDER_HEAD: [u8; 7] = [1, 0, 0, 0, 1, 0, 0];
const ORDER_MIDDLE: [u8; 14] = [1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
const CONTEXT: [u8; 16] = [0; 16];

/// One event with its change.
pub struct Row {
    pub id: Uuid,
    pub event_id: String,
    pub received_at_us: i64,
    pub body: Vec<u8>,
    pub body_digest: Vec<u8>,
    pub key: String,
    pub version: String,
    pub order_key: Vec<u8>,
    pub state: String,
    pub state_digest: Vec<u8>,
}

impl Row {
    /// Reads a body.
    pub fn read(id: Uuid, received_at_us: i64, body: Vec<u8>) -> Result<Self> {
        let parsed: Parsed<'_> = serde_json::from_slice(&body).context("a body")?;
        let object = &parsed.object;
        let state = format!(
            r#"{{"amount":{},"currency":"{}","customer":"{}","status":"{}"}}"#,
            object.amount, object.currency, object.customer, object.status
        );
        let body_digest = Sha256::digest(&body).to_vec();
        let order_key =
            [&ORDER_HEAD, &object.version.to_be_bytes()[..], &ORDER_MIDDLE, &body_digest[..], &CONTEXT].concat();
        Ok(Self {
            id,
            event_id: parsed.id.into_owned(),
            received_at_us,
            key: parsed.object.id.into_owned(),
            version: parsed.object.version.to_string(),
            state_digest: Sha256::digest(&state).to_vec(),
            body_digest,
            order_key,
            state,
            body,
        })
    }
}

/// The rows that win their entities in the batch, in the order of keys: a statement may not meet a key twice, and
/// writers that lock in one order do not deadlock.
pub fn winners(rows: &[Row]) -> Vec<&Row> {
    let mut best: HashMap<&str, &Row> = HashMap::with_capacity(rows.len());
    for row in rows {
        let held = best.entry(&row.key).or_insert(row);
        if held.order_key < row.order_key {
            *held = row;
        }
    }
    let mut winners: Vec<&Row> = best.into_values().collect();
    winners.sort_unstable_by(|a, b| a.key.cmp(&b.key));
    winners
}

/// The entity, for the statements.
pub const ENTITY: &str = event::ENTITY;
