//! The traffic: event number `n` always has the same bytes, so that what a deployment should hold is known from numbers.

use anyhow::{Context as _, Result};
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde::Deserialize;
use sha2::Sha256;
use std::borrow::Cow;

/// The one source.
pub const SOURCE: &str = "bench";
/// Where it is delivered.
pub const PATH: &str = "/in/bench";
/// Its work queue.
pub const WORK_QUEUE: &str = "oncefold.work.bench";
/// Signs every delivery.
pub const SECRET: &str = "bench-secret-0123456789abcdef0123456789";
/// The header with the signature.
pub const SIGNATURE_HEADER: &str = "x-signature";
/// The kind of entity that every event is about.
pub const ENTITY: &str = "invoice";
/// The type of every event.
pub const TYPE: &str = "invoice.updated";

/// Different entities.
const KEYS: u64 = 20_000;
/// Versions start here, so that they all have the same number of digits.
const FIRST_VERSION: u64 = 1_000_000_000;
/// Length of a body, about.
const BODY_BYTES: usize = 1536;

/// The id of an event at its source.
pub fn id(n: u64) -> String {
    format!("evt_{n:012}")
}

/// The number in an id.
pub fn number(id: &str) -> Result<u64> {
    let digits = id.strip_prefix("evt_").with_context(|| format!("`{id}` is no id of ours"))?;
    digits.parse().with_context(|| format!("`{id}` is no id of ours"))
}

/// The key of the entity it is about.
pub fn key(n: u64) -> String {
    // Neighbours are far apart, as in real traffic.
    format!("inv_{:08}", n.wrapping_mul(2_654_435_761) % KEYS)
}

/// What its state holds that is its own.
pub fn amount(n: u64) -> u64 {
    10_000 + n.wrapping_mul(7_919) % 90_000
}

/// Writes bodies and requests.
pub struct Traffic {
    mac: Hmac<Sha256>,
    lines: String,
}

impl Traffic {
    /// Prepares what all have in common.
    pub fn prepare() -> Result<Self> {
        let mac = Hmac::new_from_slice(SECRET.as_bytes()).context("the secret's length")?;
        let mut lines = String::new();
        for i in 1.. {
            if lines.len() + 220 > BODY_BYTES {
                break;
            }
            let comma = if lines.is_empty() { "" } else { "," };
            lines += &format!(
                r#"{comma}{{"sku":"SKU-{i:05}","qty":{i},"price":{}99,"description":"line item number {i} of this invoice"}}"#,
                i
            );
        }
        Ok(Self { mac, lines })
    }

    /// The body of event `n`.
    pub fn body(&self, n: u64) -> Vec<u8> {
        format!(
            r#"{{"id":"{}","type":"{TYPE}","created":1790000000,"object":{{"id":"{}","version":{},"status":"open","amount":{},"currency":"eur","customer":"cus_{:08}","lines":[{}]}}}}"#,
            id(n),
            key(n),
            FIRST_VERSION + n,
            amount(n),
            n % 5_000,
            self.lines
        )
        .into_bytes()
    }

    /// Appends the HTTP request that delivers event `n` to `path`.
    pub fn request(&self, n: u64, path: &str, to: &mut Vec<u8>) {
        let body = self.body(n);
        let mut mac = self.mac.clone();
        mac.update(&body);
        let mut signature = [0; 64];
        // The digest's length is the buffer's half.
        let _ = hex::encode_to_slice(mac.finalize().into_bytes(), &mut signature);
        to.extend_from_slice(b"POST ");
        to.extend_from_slice(path.as_bytes());
        to.extend_from_slice(b" HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\nx-signature: ");
        to.extend_from_slice(&signature);
        to.extend_from_slice(format!("\r\ncontent-length: {}\r\n\r\n", body.len()).as_bytes());
        to.extend_from_slice(&body);
    }
}

/// An event as a ceiling program reads it.
#[derive(Debug, Deserialize)]
pub struct Parsed<'a> {
    #[serde(borrow)]
    pub id: Cow<'a, str>,
    #[serde(borrow)]
    pub object: Object<'a>,
}

/// The object an event carries.
#[derive(Debug, Deserialize)]
pub struct Object<'a> {
    #[serde(borrow)]
    pub id: Cow<'a, str>,
    pub version: u64,
    #[serde(borrow)]
    pub status: Cow<'a, str>,
    pub amount: u64,
    #[serde(borrow)]
    pub currency: Cow<'a, str>,
    #[serde(borrow)]
    pub customer: Cow<'a, str>,
}

/// Verifies a hex HMAC-SHA256.
pub fn is_signed(mac: &Hmac<Sha256>, body: &[u8], signature: Option<&[u8]>) -> bool {
    let mut raw = [0; 32];
    let Some(Ok(())) = signature.map(|hex| hex::decode_to_slice(hex, &mut raw)) else { return false };
    let mut mac = mac.clone();
    mac.update(body);
    mac.verify_slice(&raw).is_ok()
}

/// The `[sources…]` of the product for this traffic.
pub fn source_config() -> String {
    format!(
        r#"
[sources.{SOURCE}]
secrets = ["{SECRET}"]
verify = {{ scheme = "hmac", header = "{SIGNATURE_HEADER}" }}
id = "/id"
type = "/type"

[[sources.{SOURCE}.projections]]
on = ["invoice.*"]
entity = "{ENTITY}"
key = "/object/id"
version = ["/object/version"]
state = {{ status = "/object/status", amount = "/object/amount", currency = "/object/currency", customer = "/object/customer" }}
"#
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_read_back_as_it_was_numbered() {
        let traffic = Traffic::prepare().unwrap();
        let body = traffic.body(123_456);
        assert!((1300..1700).contains(&body.len()), "{}", body.len());
        let parsed: Parsed<'_> = serde_json::from_slice(&body).unwrap();
        assert_eq!(number(&parsed.id).unwrap(), 123_456);
        assert_eq!((parsed.object.id.as_ref(), parsed.object.amount), (key(123_456).as_str(), amount(123_456)));
    }

    #[test]
    fn a_request_carries_its_signature() {
        let traffic = Traffic::prepare().unwrap();
        let mut request = vec![];
        traffic.request(7, PATH, &mut request);
        let text = String::from_utf8(request).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        let signature = head.lines().find_map(|line| line.strip_prefix("x-signature: ")).unwrap();
        assert!(is_signed(&traffic.mac, body.as_bytes(), Some(signature.as_bytes())));
        assert!(!is_signed(&traffic.mac, &body.as_bytes()[1..], Some(signature.as_bytes())));
        assert!(!is_signed(&traffic.mac, body.as_bytes(), None));
    }
}
