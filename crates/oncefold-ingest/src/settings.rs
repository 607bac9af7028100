//! What the intake role is made of.

use crate::outbound::Outbound;
use bytes::Bytes;
use http::{HeaderValue, Method, StatusCode};
use oncefold_core::queue::Publisher;
use oncefold_core::store::{RejectedStore, SpoolStore};
use oncefold_core::{Clock, Entropy, Source};
use oncefold_signature::{Handshake, Secret, TrustRoots, Verifier};
use oncefold_telemetry::Metrics;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;

/// One source as intake needs it.
#[derive(Clone, Debug)]
pub struct IntakeSource {
    /// Its name and rules.
    pub model: Source,
    /// What verifies its deliveries; can be exchanged while the role runs.
    pub keys: SourceKeys,
    /// The methods it takes.
    pub methods: Vec<Method>,
    /// Where the array stands whose elements are events (tokens of a JSON Pointer); none where a delivery is one.
    pub split: Option<Vec<String>>,
    /// Whether bodies may come with `Content-Encoding: gzip`.
    pub takes_gzip: bool,
    /// What an accepted delivery is answered with.
    pub respond: Respond,
    /// The public URL the provider was given, for schemes that sign it.
    pub public_url: Option<String>,
    /// Whether its token stands in the path: `/in/{source}/{token}`.
    pub path_token: bool,
    /// Headers whose values are not kept, beside `authorization`, `proxy-authorization` and `cookie`.
    pub redact_headers: Vec<String>,
    /// Query parameters whose values are not kept.
    pub redact_query: Vec<String>,
}

/// What verifies a source's deliveries, and answers its provider's handshakes.
#[derive(Clone, Debug)]
pub struct SourceKeys {
    /// The scheme with its keys.
    pub verifier: Verifier,
    /// The scheme's name in the config, kept with each event.
    pub scheme_name: String,
    /// The secrets, in their order: a handshake may have to be answered with the one that matched.
    pub secrets: Vec<Secret>,
    /// How the provider tests the endpoint.
    pub handshake: Option<Handshake>,
}

/// What an accepted delivery is answered with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Respond {
    /// The status.
    pub status: StatusCode,
    /// The exact body.
    pub body: Bytes,
    /// Its type; no header where there is none.
    pub content_type: Option<HeaderValue>,
}

impl Default for Respond {
    /// `200 {"status":"accepted"}`.
    fn default() -> Self {
        Self {
            status: StatusCode::OK,
            body: Bytes::from_static(br#"{"status":"accepted"}"#),
            content_type: Some(HeaderValue::from_static("application/json")),
        }
    }
}

/// Every bound of the role in one place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IngestSettings {
    /// Where to listen; port 0: any.
    pub listen: SocketAddr,
    /// Longest body of one delivery, bytes.
    pub max_body: usize,
    /// Longest wait for a complete request head, and for the next request on a kept connection.
    pub header_timeout: Duration,
    /// Longest time a body may take from its first byte to its last.
    pub body_timeout: Duration,
    /// Longest wait for the publisher. It has its own confirm timeout, which should be shorter: this is for one that
    /// does not answer at all.
    pub publish_timeout: Duration,
    /// Longest wait for the spool, the queue before it included.
    pub spool_timeout: Duration,
    /// Connections at once. More wait to be accepted, while idle ones are closed to make room.
    pub max_connections: usize,
    /// Bytes of bodies in hand at once, over all connections; a delivery that would exceed it is answered 503.
    pub max_bytes_in_hand: usize,
    /// What `Retry-After` says with a 503.
    pub retry_after: Duration,
}

impl IngestSettings {
    /// The defaults, listening there.
    pub const fn listening_on(listen: SocketAddr) -> Self {
        Self {
            listen,
            max_body: 1024 * 1024,
            header_timeout: Duration::from_secs(15),
            body_timeout: Duration::from_secs(10),
            publish_timeout: Duration::from_secs(3),
            spool_timeout: Duration::from_secs(3),
            max_connections: 10_000,
            max_bytes_in_hand: 256 * 1024 * 1024,
            retry_after: Duration::from_secs(5),
        }
    }
}

/// Everything [`crate::build`] puts together.
pub struct IngestParts {
    /// Bounds.
    pub settings: IngestSettings,
    /// The sources it answers for.
    pub sources: Vec<IntakeSource>,
    /// Where events go.
    pub publisher: Arc<dyn Publisher>,
    /// Where they go when the publisher does not take them; none beside an embedded queue.
    pub spool: Option<Arc<dyn SpoolStore>>,
    /// Where rejected deliveries are kept for people to look at, if anywhere.
    pub rejected: Option<Arc<dyn RejectedStore>>,
    /// What asks providers for certificates and confirmations; without, sources that need some are refused.
    pub outbound: Option<Arc<dyn Outbound>>,
    /// What fetched certificates have to lead to.
    pub roots: TrustRoots,
    /// The present moment.
    pub clock: Arc<dyn Clock>,
    /// Randomness for ids.
    pub entropy: Arc<dyn Entropy>,
    /// The process's metrics.
    pub metrics: Arc<Metrics>,
}

/// Why the role cannot start or go on.
#[derive(Debug, Error)]
pub enum IngestError {
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {cause}; set `[ingest] listen` to a free address")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why.
        cause: std::io::Error,
    },
    /// A source states something HTTP cannot carry, or two have one name.
    #[error("source `{source_name}`: {problem}")]
    Source {
        /// The source's name.
        source_name: String,
        /// What is wrong and how to mend it.
        problem: String,
    },
    /// A part of the role ended while it was still needed.
    #[error("the {0} ended unexpectedly; this is a defect, the log above says more")]
    TaskEnded(&'static str),
}
