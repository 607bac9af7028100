//! The message: one event on its way from intake to a worker. Its body is the provider's exact bytes.

use crate::id::{Digest, EventUuid, SourceName};
use crate::time::Timestamp;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// One event on its way through a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The id given at intake. A repeat gets another one; the log keeps the first.
    pub id: EventUuid,
    /// The source it came in by.
    pub source: SourceName,
    /// What the event is known by at its source; `sha256:` and the body's digest where it has no usable id.
    pub event_id: String,
    /// The event type as intake read it; the worker reads it again.
    pub event_type: Option<String>,
    /// When the delivery was received.
    pub received_at: Timestamp,
    /// 0 as it came from outside; one more each time we put it back. A verdict of another generation is refused.
    pub generation: u32,
    /// Verdicts of workers on it so far.
    pub attempts: u32,
    /// Digest of the body.
    pub digest: Digest,
    /// What else is known of the delivery, as JSON.
    pub facts: FactsJson,
    /// The exact bytes.
    pub body: Bytes,
}

impl Message {
    /// The id under which an event without a usable one is kept.
    pub fn fallback_event_id(digest: &Digest) -> String {
        format!("sha256:{}", digest.to_hex())
    }
}

/// What is kept of a delivery beside its body: the request, what verified it, and the trace it belongs to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Facts {
    /// 32 hex digits that follow the delivery through every log line.
    pub trace_id: String,
    /// The `Content-Type` header.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
    /// Request headers, names in lower case, secrets left out, in order.
    #[serde(default)]
    pub headers: Vec<(String, String)>,
    /// The raw query string, secrets left out.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub query: String,
    /// The scheme that verified it.
    #[serde(default)]
    pub scheme: String,
    /// Which of the source's secrets matched, from 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_index: Option<usize>,
}

/// [`Facts`] as they travel and are stored: JSON that is written once, at intake, and passed on as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FactsJson(String);

impl FactsJson {
    /// Writes the facts. NUL becomes U+FFFD: PostgreSQL's text cannot hold it.
    pub fn encode(facts: &Facts) -> Self {
        let text = serde_json::to_string(facts).unwrap_or_else(|_| "{}".to_owned());
        Self(if text.contains("\\u0000") { text.replace("\\u0000", "\\ufffd") } else { text })
    }

    /// Facts that were stored or received.
    pub fn from_text(text: String) -> Self {
        Self(text)
    }

    /// The JSON text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The trace id alone, read without building the rest: every verdict is logged with it. Empty where the text is
    /// none of ours.
    pub fn trace_id(&self) -> Cow<'_, str> {
        #[derive(Deserialize)]
        struct TraceOnly {
            trace_id: String,
        }
        // As [`Self::encode`] writes it.
        let first = self.0.strip_prefix("{\"trace_id\":\"").and_then(|rest| rest.split_once('"'));
        match first {
            Some((trace_id, _)) if trace_id.bytes().all(|b| b.is_ascii_alphanumeric()) => Cow::Borrowed(trace_id),
            _ => serde_json::from_str::<TraceOnly>(&self.0).map_or(Cow::Borrowed(""), |t| Cow::Owned(t.trace_id)),
        }
    }

    /// Reads them; empty where the text is none of ours.
    pub fn decode(&self) -> Facts {
        serde_json::from_str(&self.0).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_trace_id_is_what_decoding_finds() {
        let encoded = |trace_id: &str| FactsJson::encode(&Facts { trace_id: trace_id.into(), ..Facts::default() });
        for trace_id in ["0123456789abcdef0123456789abcdef", "", "a\"b\\c\u{e9}"] {
            assert_eq!(encoded(trace_id).trace_id(), trace_id);
        }
        let text = |text: &str| FactsJson::from_text(text.to_owned()).trace_id().into_owned();
        assert_eq!(text(r#"{ "scheme":"none","trace_id":"ab" }"#), "ab");
        assert_eq!(text(r#"{"trace_id":"\u0061b"}"#), "ab");
        for none in ["", "{}", "[]", r#"{"trace_id":1}"#, r#"{"trace_id":"ab"#] {
            assert_eq!(text(none), "", "{none}");
        }
    }

    #[test]
    fn a_nul_in_facts_becomes_the_replacement_character() {
        let facts = Facts { query: "a\0b".into(), ..Facts::default() };
        assert_eq!(FactsJson::encode(&facts).decode().query, "a\u{FFFD}b");
    }
}
