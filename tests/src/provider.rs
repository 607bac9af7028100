//! A provider: signs with code of its own (hmac, sha2, base64), sends over real HTTP, repeats what was not acked.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use std::net::SocketAddr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The key bytes of [`Provider::secret`].
const KEY: &[u8] = b"an e2e key of 32 bytes, not more";

/// What came back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// Status code.
    pub status: u16,
    /// Body.
    pub body: String,
}

/// Sends Svix-signed webhooks to one source.
#[derive(Clone, Debug)]
pub struct Provider {
    agent: ureq::Agent,
    source: String,
}

impl Provider {
    /// A provider of this source.
    pub fn of(source: &str) -> Self {
        let config = ureq::Agent::config_builder()
            .timeout_global(Some(Duration::from_secs(15)))
            .http_status_as_error(false)
            .build();
        Self { agent: config.into(), source: source.to_owned() }
    }

    /// The secret as the config has it.
    pub fn secret() -> String {
        format!("whsec_{}", STANDARD.encode(KEY))
    }

    /// Svix's headers for a message, signed now.
    pub fn signed(id: &str, body: &[u8]) -> Vec<(String, String)> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
        Self::signed_at(id, now, body)
    }

    /// Svix's headers for a message, signed at that Unix second.
    pub fn signed_at(id: &str, at_s: u64, body: &[u8]) -> Vec<(String, String)> {
        let mut mac = Hmac::<Sha256>::new_from_slice(KEY).expect("any key");
        mac.update(format!("{id}.{at_s}.").as_bytes());
        mac.update(body);
        let signature = format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()));
        vec![
            ("svix-id".to_owned(), id.to_owned()),
            ("svix-timestamp".to_owned(), at_s.to_string()),
            ("svix-signature".to_owned(), signature),
            ("content-type".to_owned(), "application/json".to_owned()),
        ]
    }

    /// Sends once.
    ///
    /// # Errors
    /// When no answer came.
    pub fn send(&self, to: SocketAddr, id: &str, body: &[u8]) -> Result<Reply, ureq::Error> {
        self.post(to, &Self::signed(id, body), body)
    }

    /// Sends once with these headers.
    ///
    /// # Errors
    /// When no answer came.
    pub fn post(&self, to: SocketAddr, headers: &[(String, String)], body: &[u8]) -> Result<Reply, ureq::Error> {
        let url = format!("http://{to}/in/{}", self.source);
        let request = headers.iter().fold(self.agent.post(url), |r, (name, value)| r.header(name, value));
        let mut response = request.send(body)?;
        let status = response.status().as_u16();
        Ok(Reply { status, body: response.body_mut().read_to_string()? })
    }

    /// Sends, and repeats until it is acked, as a provider would. `to` is asked each time: the process may have moved.
    pub fn deliver(&self, to: &dyn Fn() -> SocketAddr, id: &str, body: &[u8]) {
        for _ in 0..600 {
            if let Ok(Reply { status: 200..=299, .. }) = self.send(to(), id, body) {
                return;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        panic!("{id} was not acked in 600 tries");
    }
}
