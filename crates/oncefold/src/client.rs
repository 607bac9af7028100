//! A small HTTP client for `send`, `healthcheck` and the demo.

use std::time::Duration;

/// Longest answer that is read, bytes.
const ANSWER_BYTES_MAX: u64 = 1024 * 1024;

/// An HTTP answer.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Its status code.
    pub status: u16,
    /// Its body, as text.
    pub body: String,
}

/// Sends requests; keeps connections.
#[derive(Clone, Debug)]
pub struct Client(ureq::Agent);

impl Client {
    /// A client whose requests take at most `timeout`.
    pub fn with_timeout(timeout: Duration) -> Self {
        let config = ureq::Agent::config_builder()
            .timeout_global(Some(timeout))
            .http_status_as_error(false)
            .max_redirects(0)
            .build();
        Self(config.into())
    }

    /// POSTs exact bytes.
    ///
    /// # Errors
    /// When no answer came.
    pub fn post(&self, url: &str, headers: &[(String, String)], body: &[u8]) -> Result<Answer, ureq::Error> {
        let request = headers.iter().fold(self.0.post(url), |r, (name, value)| r.header(name, value));
        read(request.send(body)?)
    }

    /// GETs.
    ///
    /// # Errors
    /// When no answer came.
    pub fn get(&self, url: &str, headers: &[(String, String)]) -> Result<Answer, ureq::Error> {
        let request = headers.iter().fold(self.0.get(url), |r, (name, value)| r.header(name, value));
        read(request.call()?)
    }
}

fn read(mut response: ureq::http::Response<ureq::Body>) -> Result<Answer, ureq::Error> {
    let status = response.status().as_u16();
    let body = response.body_mut().with_config().limit(ANSWER_BYTES_MAX).lossy_utf8(true).read_to_string()?;
    Ok(Answer { status, body })
}
