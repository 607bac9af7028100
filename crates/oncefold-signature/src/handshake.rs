//! Handshakes: requests by which a provider tests an endpoint, and that are no events. Pure: what comes in, what has to
//! be answered.
//!
//! Those that are signed are answered only once they are verified. Text from a request is echoed as `text/plain` with
//! `nosniff`, so that no browser takes it for a page.

mod signed;
mod unsigned;

use crate::request::Request;
use crate::secret::Secret;
use serde_json::Value;

/// Which handshake a source's provider does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Handshake {
    /// Slack's `url_verification`: a signed POST whose `challenge` is echoed.
    Slack,
    /// Meta's `hub.challenge`: a GET that shows the token the operator chose.
    Meta {
        /// What `hub.verify_token` has to be.
        verify_token: Secret,
    },
    /// Zoom's `endpoint.url_validation`: a signed POST, repeated every 72 hours; its token is signed in the answer.
    Zoom,
    /// Dropbox: a GET whose `challenge` is echoed.
    Dropbox,
    /// Microsoft Graph: a POST without a body, whose `validationToken` in the query is echoed decoded.
    MicrosoftGraph,
    /// Okta: a GET with a challenge in a header; the source verifies it as it does deliveries.
    Okta,
    /// Amazon SNS: signed confirmations of a subscription, for these topics only (ARNs).
    Sns {
        /// Topics that may be confirmed; none for none.
        topics: Vec<String>,
    },
    /// Xero's intent to receive: a signed POST without events.
    Xero,
    /// Discord's ping of interactions (type 1) and of webhook events (type 0), signed.
    Discord,
    /// WooCommerce: an unsigned form that only names the webhook, sent when it is saved.
    WooCommerce,
    /// A `HEAD` by which a provider looks whether there is an endpoint (Intercom).
    Probe,
}

/// The whole answer to a handshake.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The HTTP status.
    pub status: u16,
    /// The `Content-Type`; none for an empty body.
    pub content_type: Option<&'static str>,
    /// Whether `X-Content-Type-Options: nosniff` has to be set.
    pub nosniff: bool,
    /// The exact body.
    pub body: String,
}

impl Answer {
    const fn empty(status: u16) -> Self {
        Self { status, content_type: None, nosniff: false, body: String::new() }
    }

    fn echo(text: impl Into<String>) -> Self {
        Self { status: 200, content_type: Some("text/plain"), nosniff: true, body: text.into() }
    }

    fn json(text: String) -> Self {
        Self { status: 200, content_type: Some("application/json"), nosniff: true, body: text }
    }
}

/// What a verified handshake asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// Nothing but this answer.
    Answer(Answer),
    /// To ask for this URL once, which is at the provider's host, then to answer.
    Confirm {
        /// Where to send a GET.
        url: String,
        /// What to answer meanwhile.
        answer: Answer,
    },
}

/// Longest text that is echoed or signed; providers send some tens of bytes.
const LONGEST_CHALLENGE: usize = 1_024;

fn within_bounds(text: &str) -> bool {
    !text.is_empty() && text.len() <= LONGEST_CHALLENGE
}

impl Handshake {
    /// The HTTP method besides those of deliveries that the source has to take; none where handshakes use POST.
    pub const fn method(&self) -> Option<&'static str> {
        match self {
            Self::Meta { .. } | Self::Dropbox | Self::Okta => Some("GET"),
            Self::Probe => Some("HEAD"),
            _ => None,
        }
    }

    /// The answer, where the request is a handshake that nobody signs: to be asked before verification. Nothing where it
    /// is none; it is a delivery then, or not allowed.
    pub fn unsigned(&self, req: &Request<'_>) -> Option<Answer> {
        match self {
            Self::Meta { verify_token } => unsigned::meta(req, verify_token),
            Self::Dropbox => unsigned::dropbox(req),
            Self::MicrosoftGraph => unsigned::microsoft_graph(req),
            Self::WooCommerce => unsigned::woocommerce(req),
            Self::Probe => (req.method == "HEAD").then(|| Answer::empty(200)),
            Self::Slack | Self::Zoom | Self::Okta | Self::Sns { .. } | Self::Xero | Self::Discord => None,
        }
    }

    /// What to do, where a verified request is a handshake and no event. `secret` is the one that matched
    /// ([`crate::Verified::secret_index`]).
    pub fn signed(&self, req: &Request<'_>, secret: Option<&Secret>) -> Option<Reply> {
        if let Self::Okta = self {
            return signed::okta(req).map(Reply::Answer);
        }
        let json: Value = serde_json::from_slice(req.body).ok()?;
        match self {
            Self::Slack => signed::slack(&json).map(Reply::Answer),
            Self::Zoom => signed::zoom(&json, secret?).map(Reply::Answer),
            Self::Sns { topics } => signed::sns(&json, topics),
            Self::Xero => signed::xero(&json).map(Reply::Answer),
            Self::Discord => signed::discord(&json).map(Reply::Answer),
            Self::Meta { .. } | Self::Dropbox | Self::MicrosoftGraph | Self::Okta | Self::WooCommerce | Self::Probe => {
                None
            }
        }
    }
}

#[cfg(test)]
mod tests;
