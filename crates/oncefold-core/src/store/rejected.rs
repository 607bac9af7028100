use super::StoreError;
use crate::id::SourceName;
use crate::time::Timestamp;
use async_trait::async_trait;
use bytes::Bytes;
use serde::{Deserialize, Serialize};

/// A delivery that did not verify, with what it takes to explain why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RejectedDelivery {
    /// The source it was sent to.
    pub source: SourceName,
    /// When it came.
    pub at: Timestamp,
    /// The class of its rejection.
    pub reason: String,
    /// What was wrong, in a line without secrets.
    pub detail: String,
    /// The request.
    pub request: RejectedRequest,
    /// Its body as it came; none where it was longer than [`crate::limits::REJECTED_BODY_BYTES_MAX`].
    pub body: Option<Bytes>,
}

/// A request without its body. Nobody verified what stands here.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RejectedRequest {
    /// The delivery's name in the logs.
    pub trace_id: String,
    /// The HTTP method.
    pub method: String,
    /// The raw query string, secrets left out.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub query: String,
    /// Headers, names in lower case, secrets left out, in order.
    #[serde(default)]
    pub headers: Vec<(String, String)>,
    /// How long the body was.
    pub body_bytes: usize,
}

impl RejectedRequest {
    /// As it is stored. NUL becomes U+FFFD: PostgreSQL's text cannot hold it.
    pub fn encode(&self) -> String {
        serde_json::to_string(self).unwrap_or_else(|_| "{}".to_owned()).replace("\\u0000", "\\ufffd")
    }

    /// As it was stored; empty where the text is none of ours.
    pub fn decode(text: &str) -> Self {
        serde_json::from_str(text).unwrap_or_default()
    }
}

/// A delivery of the rejected log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RejectedRecord {
    /// Its place in the log: newer ones have higher numbers.
    pub sequence: i64,
    /// The delivery.
    pub delivery: RejectedDelivery,
}

/// The rejected log: a help for people, written by intake as long as that costs nothing. Nothing depends on it.
#[async_trait]
pub trait RejectedStore: Send + Sync {
    /// Adds deliveries, oldest first, and keeps the newest [`crate::limits::REJECTED_ROWS_MAX`] of each source.
    async fn record_rejected(&self, deliveries: &[RejectedDelivery]) -> Result<(), StoreError>;

    /// A page, newest first: of this source only where one is named, older than `before`, at most `limit`.
    async fn rejected(
        &self,
        source: Option<&str>,
        before: Option<i64>,
        limit: u32,
    ) -> Result<Vec<RejectedRecord>, StoreError>;
}
