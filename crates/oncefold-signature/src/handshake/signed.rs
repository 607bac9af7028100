//! Handshakes that the source's scheme has verified.

use super::{Answer, Reply, within_bounds};
use crate::mac::{HmacAlgorithm, KeyedMac};
use crate::request::Request;
use crate::schemes::sns::is_at_sns;
use crate::secret::Secret;
use serde_json::Value;

fn text<'a>(json: &'a Value, pointer: &str) -> Option<&'a str> {
    json.pointer(pointer)?.as_str().filter(|text| within_bounds(text))
}

/// api.slack.com/events/url_verification.
pub(super) fn slack(json: &Value) -> Option<Answer> {
    (text(json, "/type")? == "url_verification").then(|| text(json, "/challenge").map(Answer::echo)).flatten()
}

/// Hex HMAC-SHA-256 of the token with the secret that signed the request.
pub(super) fn zoom(json: &Value, secret: &Secret) -> Option<Answer> {
    if text(json, "/event")? != "endpoint.url_validation" {
        return None;
    }
    let token = text(json, "/payload/plainToken")?;
    let tag = KeyedMac::keyed(HmacAlgorithm::Sha256, secret.text().as_bytes()).over(&[token.as_bytes()]);
    let token = Value::from(token);
    Some(Answer::json(format!(r#"{{"plainToken":{token},"encryptedToken":"{}"}}"#, hex::encode(tag.as_slice()))))
}

/// Okta's one-time verification of an event hook.
pub(super) fn okta(req: &Request<'_>) -> Option<Answer> {
    if req.method != "GET" {
        return None;
    }
    let challenge = req.sole_header("x-okta-verification-challenge").ok()?;
    let challenge = std::str::from_utf8(challenge).ok().filter(|text| within_bounds(text))?;
    Some(Answer::json(format!(r#"{{"verification":{}}}"#, Value::from(challenge))))
}

/// Confirms a subscription to a listed topic; others are answered and left unconfirmed, and leaving is not undone.
pub(super) fn sns(json: &Value, topics: &[String]) -> Option<Reply> {
    let answer = Answer::empty(200);
    match json.pointer("/Type")?.as_str()? {
        "SubscriptionConfirmation" => {
            let topic = json.pointer("/TopicArn").and_then(Value::as_str);
            let url = json.pointer("/SubscribeURL").and_then(Value::as_str).filter(|url| is_at_sns(url));
            let listed = topic.is_some_and(|topic| topics.iter().any(|listed| listed == topic));
            Some(match url.filter(|_| listed) {
                Some(url) => Reply::Confirm { url: url.to_owned(), answer },
                None => Reply::Answer(Answer::empty(403)),
            })
        }
        "UnsubscribeConfirmation" => Some(Reply::Answer(answer)),
        _ => None,
    }
}

/// developer.xero.com, intent to receive: an empty answer, 200 where the signature is right.
pub(super) fn xero(json: &Value) -> Option<Answer> {
    json.pointer("/events")?.as_array()?.is_empty().then(|| Answer::empty(200))
}

/// discord-interactions-js; webhook events (type 0) want 204.
pub(super) fn discord(json: &Value) -> Option<Answer> {
    let kind = json.pointer("/type")?.as_i64()?;
    match kind {
        1 if json.pointer("/event").is_none() => Some(Answer::json(r#"{"type":1}"#.to_owned())),
        0 => Some(Answer::empty(204)),
        _ => None,
    }
}
