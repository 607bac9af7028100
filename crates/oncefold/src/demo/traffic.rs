//! Sample traffic as storekit sends it: orders and payments with a history each; some deliveries forged, some that
//! cannot be mapped. What the entities must be in the end is written down as the histories are made, apart from any
//! fold.

use crate::ksuid;
use oncefold_core::{Entropy, Timestamp};
use oncefold_signature::{Request, Scheme, Secret, UnixTime};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;

const ORDERS: usize = 60;
const FORGED: usize = 24;
const UNMAPPABLE: usize = 8;
/// Message ids hold their creation time to 4 ms; events further apart than that have an order.
const BETWEEN_EVENTS: Duration = Duration::from_millis(8);

/// What a delivery is meant to show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// To be accepted and applied.
    Good,
    /// To be rejected: its signature is wrong or old.
    Forged,
    /// To be accepted and parked.
    Unmappable,
}

/// One HTTP request.
#[derive(Clone, Debug)]
pub struct Delivery {
    /// What it shows.
    pub kind: Kind,
    /// Its headers, signature included.
    pub headers: Vec<(String, String)>,
    /// Its exact body.
    pub body: Vec<u8>,
}

/// What must come of the traffic.
#[derive(Clone, Debug, Default)]
pub struct Expected {
    /// Final state by (entity, key); `None` for a deleted one.
    pub entities: BTreeMap<(&'static str, String), Option<Value>>,
    /// Distinct events that are applied.
    pub events: usize,
    /// Distinct events that are parked.
    pub parked: usize,
}

/// Deliveries in the order they are sent, and what must come of them.
#[derive(Clone, Debug)]
pub struct Traffic {
    /// The deliveries.
    pub deliveries: Vec<Delivery>,
    /// What must come of them.
    pub expected: Expected,
}

struct Making<'a> {
    scheme: &'a Scheme,
    secret: &'a Secret,
    entropy: &'a dyn Entropy,
    now: Timestamp,
    /// The creation time of the next event.
    at: Timestamp,
    traffic: Traffic,
}

impl Traffic {
    /// Makes traffic signed with `secret` at `now`: every event twice, everything shuffled.
    ///
    /// # Errors
    /// When the scheme cannot sign with the secret.
    pub fn make(scheme: &Scheme, secret: &Secret, now: Timestamp, entropy: &dyn Entropy) -> anyhow::Result<Self> {
        let traffic = Self { deliveries: vec![], expected: Expected::default() };
        let mut making = Making { scheme, secret, entropy, now, at: now.minus(Duration::from_secs(240)), traffic };
        for n in 0..ORDERS {
            making.order(n)?;
        }
        for n in 0..FORGED {
            making.forged(n)?;
        }
        for n in 0..UNMAPPABLE {
            making.unmappable(n)?;
        }
        let mut traffic = making.traffic;
        shuffle(&mut traffic.deliveries, entropy);
        Ok(traffic)
    }
}

impl Making<'_> {
    /// One order's history, and its payment's.
    fn order(&mut self, n: usize) -> anyhow::Result<()> {
        let (order, payment) = (format!("ord_{n:04}"), format!("pay_{n:04}"));
        let total = 1_000 + n * 50;
        let mut state = json!({"status": "New", "total": total});
        self.event("order.created", &json!({"id": order, "status": "New", "total": total}))?;
        self.event("payment.created", &json!({"id": payment, "order": order, "status": "pending", "amount": total}))?;
        for status in ["Accepted", "Preparing", "Ready"].iter().take(1 + n % 3) {
            state = json!({"status": status, "total": total + 250});
            self.event("order.updated", &json!({"id": order, "status": status, "total": total + 250}))?;
        }
        let paid = if n % 7 == 3 { "failed" } else { "paid" };
        self.event(
            &format!("payment.{paid}"),
            &json!({"id": payment, "order": order, "status": paid, "amount": total + 250}),
        )?;
        let deleted = n % 15 == 4;
        if deleted {
            self.event("order.deleted", &json!({"id": order}))?;
        }
        let payment_state = json!({"order": order, "status": paid, "amount": total + 250});
        let entities = &mut self.traffic.expected.entities;
        entities.insert(("order", order), (!deleted).then_some(state));
        entities.insert(("payment", payment), Some(payment_state));
        Ok(())
    }

    fn event(&mut self, event_type: &str, data: &Value) -> anyhow::Result<()> {
        let body = json!({"event": event_type, "data": data}).to_string().into_bytes();
        self.traffic.expected.events += 1;
        let id = self.next_id();
        self.twice(Kind::Good, &id, &body)
    }

    /// Alternately: a body changed after signing, a signature made with another secret, an old timestamp.
    fn forged(&mut self, n: usize) -> anyhow::Result<()> {
        let id = self.next_id();
        let body = json!({"event": "order.updated", "data": {"id": "ord_0000", "status": "Stolen", "total": 0}});
        let body = body.to_string().into_bytes();
        let other = Secret::new(&format!("whsec_{}", base64::Engine::encode(&BASE64, [n as u8; 24])))?;
        let old = self.now.minus(Duration::from_secs(3_600));
        let (headers, body) = match n % 3 {
            0 => (self.sign(self.secret, &id, &body, self.now)?, [&body[..], b" "].concat()),
            1 => (self.sign(&other, &id, &body, self.now)?, body),
            _ => (self.sign(self.secret, &id, &body, old)?, body),
        };
        self.traffic.deliveries.push(Delivery { kind: Kind::Forged, headers, body });
        Ok(())
    }

    /// Alternately: not JSON, and no id of the entity.
    fn unmappable(&mut self, n: usize) -> anyhow::Result<()> {
        let body = match n % 2 {
            0 => format!("<order n=\"{n}\"/>").into_bytes(),
            _ => json!({"event": "order.updated", "data": {"status": "Ready", "n": n}}).to_string().into_bytes(),
        };
        self.traffic.expected.parked += 1;
        let id = self.next_id();
        self.twice(Kind::Unmappable, &id, &body)
    }

    fn next_id(&mut self) -> String {
        self.at = self.at.plus(BETWEEN_EVENTS);
        ksuid::message_id(self.at, self.entropy)
    }

    fn twice(&mut self, kind: Kind, id: &str, body: &[u8]) -> anyhow::Result<()> {
        for _ in 0..2 {
            let headers = self.sign(self.secret, id, body, self.now)?;
            self.traffic.deliveries.push(Delivery { kind, headers, body: body.to_vec() });
        }
        Ok(())
    }

    fn sign(&self, secret: &Secret, id: &str, body: &[u8], at: Timestamp) -> anyhow::Result<Vec<(String, String)>> {
        let request = Request { method: "POST", url: None, query: "", path_token: None, headers: &[], body };
        let mut headers = self.scheme.sign(secret, id, &request, UnixTime::from_micros(at.as_micros()))?.headers;
        headers.push(("content-type".to_owned(), "application/json".to_owned()));
        Ok(headers)
    }
}

const BASE64: base64::engine::GeneralPurpose = base64::engine::general_purpose::STANDARD;

/// Fisher and Yates's shuffle.
pub fn shuffle<T>(items: &mut [T], entropy: &dyn Entropy) {
    for last in (1..items.len()).rev() {
        let bound = last as u64 + 1;
        let other = usize::try_from(entropy.next_u64() % bound).unwrap_or(0);
        items.swap(last, other);
    }
}
