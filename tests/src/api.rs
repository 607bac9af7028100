//! A client of the admin API.

use crate::deployment::OPERATOR;
use crate::wait;
use serde_json::Value;
use std::net::SocketAddr;
use std::time::Duration;

/// A client with a token.
#[derive(Clone, Debug)]
pub struct Api {
    agent: ureq::Agent,
    base: String,
    token: String,
}

impl Api {
    /// An operator's client.
    pub fn at(address: SocketAddr) -> Self {
        Self::with_token(address, OPERATOR)
    }

    /// A client with another token.
    pub fn with_token(address: SocketAddr, token: &str) -> Self {
        let config = ureq::Agent::config_builder()
            .timeout_global(Some(Duration::from_secs(30)))
            .http_status_as_error(false)
            .build();
        Self { agent: config.into(), base: format!("http://{address}"), token: format!("Bearer {token}") }
    }

    /// GETs a path below `/api/v1`; status and JSON.
    pub fn try_get(&self, path: &str) -> (u16, Value) {
        let url = format!("{}/api/v1{path}", self.base);
        let mut response = self.agent.get(url).header("authorization", &self.token).call().expect("an answer");
        let text = response.body_mut().with_config().limit(64 << 20).read_to_string().expect("a body");
        (response.status().as_u16(), serde_json::from_str(&text).unwrap_or(Value::String(text)))
    }

    /// GETs what has to be there.
    pub fn get(&self, path: &str) -> Value {
        let (status, value) = self.try_get(path);
        assert_eq!(status, 200, "GET {path}: {value}");
        value
    }

    /// POSTs JSON; status and JSON.
    pub fn post(&self, path: &str, body: Option<&Value>) -> (u16, Value) {
        let url = format!("{}/api/v1{path}", self.base);
        let request = self.agent.post(url).header("authorization", &self.token);
        let mut response = match body {
            None => request.send_empty(),
            Some(body) => request.header("content-type", "application/json").send(body.to_string()),
        }
        .expect("an answer");
        let text = response.body_mut().read_to_string().expect("a body");
        (response.status().as_u16(), serde_json::from_str(&text).unwrap_or(Value::String(text)))
    }

    /// Every item of a list, page by page.
    pub fn all(&self, path: &str) -> Vec<Value> {
        let mut items = vec![];
        let mut cursor = String::new();
        loop {
            let joint = if path.contains('?') { '&' } else { '?' };
            let page = self.get(&format!("{path}{joint}limit=500{cursor}"));
            items.extend(page["items"].as_array().expect("items").iter().cloned());
            match page["next_cursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => return items,
            }
        }
    }

    /// Waits until exactly so many events match, all settled or dead.
    pub fn settled(&self, query: &str, count: usize, within: Duration) -> Vec<Value> {
        wait::until(&format!("{count} events {query} are settled"), within, || {
            let events = self.all(&format!("/events{query}"));
            let open = events.iter().filter(|e| matches!(e["status"].as_str(), Some("queued" | "retrying"))).count();
            if events.len() == count && open == 0 { Ok(events) } else { Err((events.len(), open)) }
        })
    }

    /// Waits for the event with this id at its source to be in this status.
    pub fn event(&self, event_id: &str, status: &str) -> Value {
        wait::until(&format!("{event_id} is {status}"), Duration::from_secs(30), || {
            let page = self.get(&format!("/events?event_id={event_id}"));
            let event = page["items"][0].clone();
            if event["status"] == status { Ok(event) } else { Err(event) }
        })
    }
}
