//! Handshakes that nobody signs. None of them reaches anything but its own answer.

use super::{Answer, within_bounds};
use crate::request::Request;
use crate::schemes::token::{Known, query_value};
use crate::secret::Secret;

fn parameter(req: &Request<'_>, name: &str) -> Option<String> {
    let value = query_value(req.query, name).ok()?;
    String::from_utf8(value.into_owned()).ok().filter(|text| within_bounds(text))
}

/// developers.facebook.com, Webhooks, "Validating Verification Requests".
pub(super) fn meta(req: &Request<'_>, verify_token: &Secret) -> Option<Answer> {
    if req.method != "GET" || parameter(req, "hub.mode")? != "subscribe" {
        return None;
    }
    let known = Known::of(std::slice::from_ref(verify_token));
    let shown = parameter(req, "hub.verify_token").unwrap_or_default();
    Some(match parameter(req, "hub.challenge") {
        Some(challenge) if known.position(shown.as_bytes()).is_some() => Answer::echo(challenge),
        _ => Answer::empty(403),
    })
}

/// dropbox.com/developers/reference/webhooks.
pub(super) fn dropbox(req: &Request<'_>) -> Option<Answer> {
    (req.method == "GET").then(|| parameter(req, "challenge").map(Answer::echo)).flatten()
}

/// learn.microsoft.com, change-notifications-delivery-webhooks.
pub(super) fn microsoft_graph(req: &Request<'_>) -> Option<Answer> {
    (req.method == "POST" && req.body.is_empty()).then(|| parameter(req, "validationToken").map(Answer::echo)).flatten()
}

/// `deliver_ping` of WooCommerce's class-wc-webhook.php: anything but 200 and the webhook is not saved.
pub(super) fn woocommerce(req: &Request<'_>) -> Option<Answer> {
    let number = req.body.strip_prefix(b"webhook_id=")?;
    let is_ping = (1..=20).contains(&number.len()) && number.iter().all(u8::is_ascii_digit);
    let is_signed = req.has_header("x-wc-webhook-signature");
    (req.method == "POST" && is_ping && !is_signed).then(|| Answer::empty(200))
}
