//! The valid vectors, changed where their structure is: nothing panics, and nothing is accepted but what the sender
//! signed. What a change may leave intact is judged by other parsers than those that verify.

use super::edits::mutation;
use super::vectors::Vector;
use super::*;
use oncefold_core::locator::{Document, Locator};
use oncefold_core::{Digest, Timestamp, json, prepare};
use oncefold_signature::{Handshake, Rejection, Secret, UnixTime, Verdict};
use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::Value;
use std::collections::BTreeSet;
use std::sync::LazyLock;

/// Valid vectors with their sources; setting up keys once keeps the cases fast.
static VALID: LazyLock<Vec<(Vector, SourceConfig)>> = LazyLock::new(|| {
    let valid = Vector::all().into_iter().filter(|vector| vector.is_valid).chain(signed_here());
    valid.map(|vector| (vector.source().unwrap(), vector)).map(|(source, vector)| (vector, source)).collect()
});

/// Deliveries of the presets that have no valid vector, signed by the scheme's own signing side; that of `zonos` shows
/// a token in the path.
fn signed_here() -> Vec<Vector> {
    let body =
        br#"{"id":"e1","type":"thing.changed","event":"thing.changed","event_ts":1760000000000,"data":{"n":1.50}}"#;
    let unsigned = |preset: &&str| Vector {
        preset: (*preset).to_owned(),
        name: format!("{preset}/signed-here"),
        secrets: vec![if *preset == "storekit" { "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw" } else { SECRET }.to_owned()],
        method: "POST".to_owned(),
        url: "https://hooks.example/in/x".to_owned(),
        path_token: None,
        headers: vec![],
        body: body.to_vec(),
        now: UnixTime::from_secs(1_760_000_000),
        is_valid: true,
        items: None,
        certificate: None,
        why: String::new(),
    };
    let mut vectors: Vec<_> = ["storekit", "xero", "zendesk", "zoom"].iter().map(unsigned).collect();
    for vector in &mut vectors {
        let source = vector.source().unwrap();
        let signed = vector.with_request(|request| {
            source.scheme.sign(&source.secrets[0], "msg_2b", request, vector.now).expect("signed")
        });
        let lower = |(name, value): (String, String)| (name.to_ascii_lowercase(), value.into_bytes());
        vector.headers = signed.headers.into_iter().map(lower).collect();
    }
    let zonos = unsigned(&"zonos");
    vectors.push(Vector { path_token: Some(SECRET.to_owned()), ..zonos });
    vectors
}

const SECRET: &str = "a literal secret of 33 characters";

/// Headers whose text is signed.
const SIGNED: [&str; 12] = [
    "svix-id",
    "svix-timestamp",
    "webhook-id",
    "webhook-timestamp",
    "x-slack-request-timestamp",
    "x-zm-request-timestamp",
    "x-zendesk-webhook-signature-timestamp",
    "x-hubspot-request-timestamp",
    "x-signature-timestamp",
    "paypal-transmission-id",
    "paypal-transmission-time",
    "paypal-auth-algo",
];
/// Headers whose text is the signature, or holds it among other fields.
const SIGNATURES: [&str; 22] = [
    "svix-signature",
    "webhook-signature",
    "stripe-signature",
    "x-shopify-hmac-sha256",
    "shopify-hmac-sha256",
    "x-hub-signature",
    "x-hub-signature-256",
    "x-square-hmacsha256-signature",
    "x-mollie-signature",
    "paddle-signature",
    "x-wc-webhook-signature",
    "hmacsignature",
    "x-slack-signature",
    "x-zm-signature",
    "x-xero-signature",
    "x-zendesk-webhook-signature",
    "x-dropbox-signature",
    "x-hubspot-signature-v3",
    "linear-signature",
    "x-signature-ed25519",
    "paypal-transmission-sig",
    "x-twilio-signature",
];

fn values<'a>(vector: &'a Vector, name: &str) -> Vec<&'a [u8]> {
    vector.headers.iter().filter(|(given, _)| given == name).map(|(_, value)| value.as_slice()).collect()
}

/// The pieces of a signature header that are long enough to be signatures, lower case.
fn tokens(value: &[u8]) -> BTreeSet<String> {
    let text = String::from_utf8_lossy(value).to_ascii_lowercase();
    let pieces = text.split([',', ' ', ';', '=']).filter(|piece| piece.len() >= 26).map(str::to_owned);
    pieces.collect()
}

/// Whether everything that is signed is as the sender made it, by the meaning of the preset's scheme.
fn same_signed_content(preset: &str, before: &Vector, after: &Vector) -> Result<(), String> {
    // Where svix-* is there, webhook-* is not looked at.
    let is_read = |name: &str| !name.starts_with("webhook-") || values(before, "svix-id").is_empty();
    for name in SIGNED.into_iter().filter(|name| is_read(name)) {
        if values(before, name) != values(after, name) {
            let folded = |v: &Vector| values(v, name).iter().map(|t| t.to_ascii_lowercase()).collect::<Vec<_>>();
            let same_but_for_case = name == "paypal-auth-algo" && folded(before) == folded(after);
            if !same_but_for_case {
                return Err(format!("{name} changed"));
            }
        }
    }
    for name in SIGNATURES.into_iter().filter(|name| is_read(name)) {
        let known: BTreeSet<_> = values(before, name).into_iter().flat_map(tokens).collect();
        let shown: BTreeSet<_> = values(after, name).into_iter().flat_map(tokens).collect();
        // Shopify: of two families the first counts, and a delivery has one.
        if !known.is_empty() && known.is_disjoint(&shown) {
            return Err(format!("{name} has no signature of the sender's"));
        }
    }
    if before.path_token != after.path_token {
        return Err("the token in the path changed".to_owned());
    }
    let same_body = match preset {
        "zonos" => true, // nothing binds it
        "adyen" => fields(&before.body, &ADYEN) == fields(&after.body, &ADYEN),
        "sns" => fields(&before.body, &SNS) == fields(&after.body, &SNS),
        "twilio" if !before.url.contains("bodySHA256") => form(&before.body) == form(&after.body),
        _ => before.body == after.body,
    };
    if !same_body {
        return Err("the signed part of the body changed".to_owned());
    }
    let signs_url = ["square", "hubspot", "twilio"].contains(&preset);
    let bare = |url: &str| url.split('#').next().unwrap_or_default().replace(":443", "");
    if signs_url && bare(&before.url) != bare(&after.url) {
        return Err("the signed URL changed".to_owned());
    }
    if preset == "hubspot" && before.method != after.method {
        return Err("the signed method changed".to_owned());
    }
    Ok(())
}

const ADYEN: [&str; 9] = [
    "/pspReference",
    "/originalReference",
    "/merchantAccountCode",
    "/merchantReference",
    "/amount/value",
    "/amount/currency",
    "/eventCode",
    "/success",
    "/additionalData/hmacSignature",
];
const SNS: [&str; 8] =
    ["/Message", "/MessageId", "/Subject", "/Timestamp", "/TopicArn", "/Type", "/Token", "/SubscribeURL"];

/// The values at these pointers, of each Adyen item or of the whole, numbers and texts as texts.
fn fields(body: &[u8], pointers: &[&str]) -> Option<Vec<Vec<String>>> {
    let json: Value = serde_json::from_slice(body).ok()?;
    let whole = vec![json.clone()];
    let items = json.pointer("/notificationItems").and_then(Value::as_array);
    let items = items.map(|items| items.iter().map(|item| item["NotificationRequestItem"].clone()).collect());
    let text = |value: Option<&Value>| match value {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    };
    let of = |item: &Value| pointers.iter().map(|pointer| text(item.pointer(pointer))).collect();
    Some(items.unwrap_or(whole).iter().map(of).collect())
}

/// The JSON Pointer (RFC 6901) of these tokens.
fn pointer(tokens: &[String]) -> String {
    tokens.iter().map(|token| format!("/{}", token.replace('~', "~0").replace('/', "~1"))).collect()
}

fn form(body: &[u8]) -> BTreeSet<(String, String)> {
    form_urlencoded::parse(body).into_owned().collect()
}

fn handshakes(secret: &Secret) -> Vec<Handshake> {
    vec![
        Handshake::Slack,
        Handshake::Meta { verify_token: secret.clone() },
        Handshake::Zoom,
        Handshake::Dropbox,
        Handshake::MicrosoftGraph,
        Handshake::Okta,
        Handshake::Sns { topics: vec!["arn:aws:sns:eu-west-1:123456789012:orders".to_owned()] },
        Handshake::Xero,
        Handshake::Discord,
        Handshake::WooCommerce,
        Handshake::Probe,
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn nothing_is_accepted_but_what_was_signed(which in any::<Index>(), mutation in mutation()) {
        let (original, source) = &VALID[which.index(VALID.len())];
        let mutated = mutation.applied(original);
        let verdict = mutated.with_request(|request| source.verifier.verify(request, mutated.now));
        let items = mutated.with_request(|request| {
            let items = source.verifier.verify_items(request, mutated.now);
            items.is_ok_and(|items| !items.is_empty() && items.iter().all(|item| item.verdict.is_valid()))
        });
        prop_assert_eq!(items, verdict.is_valid(), "{}: one by one and as a whole differ", original.name);
        match verdict {
            Verdict::Valid(_) => {
                let same = same_signed_content(&original.preset, original, &mutated);
                prop_assert!(same.is_ok(), "{} accepted: {}", original.name, same.unwrap_err());
            }
            Verdict::Invalid(rejection) => {
                prop_assert!(rejection.detail.len() <= Rejection::MAX_DETAIL);
                prop_assert!(!rejection.detail.chars().any(char::is_control), "{:?}", rejection.detail);
            }
        }
    }

    #[test]
    fn a_diagnosis_never_panics_nor_shows_a_secret(which in any::<Index>(), mutation in mutation()) {
        let (original, source) = &VALID[which.index(VALID.len())];
        let mutated = mutation.applied(original);
        let Verdict::Invalid(rejection) = mutated.with_request(|r| source.verifier.verify(r, mutated.now)) else {
            return Ok(());
        };
        let told = mutated.with_request(|request| source.verifier.diagnose(request, mutated.now, &rejection));
        for secret in original.secrets.iter().filter(|secret| secret.len() > 8) {
            prop_assert!(!told.contains(secret.as_str()), "{}: {told}", original.name);
        }
    }

    #[test]
    fn what_a_delivery_says_of_itself_is_as_serde_json_reads_it(which in any::<Index>(), mutation in mutation()) {
        let (original, source) = &VALID[which.index(VALID.len())];
        let mutated = mutation.applied(original);
        let whole: Option<Value> = serde_json::from_slice(&mutated.body).ok();
        if let Some(tokens) = &source.split {
            let found = json::elements(&mutated.body, tokens);
            let expected = whole.as_ref().and_then(|json| json.pointer(&pointer(tokens))).and_then(Value::as_array);
            let read: Option<Vec<Value>> =
                found.map(|found| found.into_iter().map(|one| serde_json::from_slice(one).unwrap()).collect());
            prop_assert_eq!(read.as_ref(), expected);
        }
        let outline = prepare::identity_outline(&source.model);
        let parsed = prepare::read(source.model.format, &mutated.body, &outline).ok();
        let text = |(name, value): &(String, Vec<u8>)| (name.clone(), String::from_utf8_lossy(value).into_owned());
        let headers: Vec<_> = mutated.headers.iter().map(text).collect();
        let query = mutated.url.split_once('?').map_or("", |(_, query)| query);
        let document = Document { json: parsed.as_ref(), headers: &headers, query };
        let at = Timestamp::from_micros(mutated.now.as_micros());
        let identity = prepare::identify(&source.model, &document, &Digest::of(&mutated.body), at);
        for (read, most) in [(&identity.event_id, 256), (&identity.event_type, 200)] {
            if let Ok(text) = read {
                prop_assert!(!text.is_empty() && text.len() <= most && !text.contains('\0'), "{}: {:?}", original.name, text);
            }
        }
        if let (Ok(read), Locator::Pointer(tokens)) = (&identity.event_type, &source.model.event_type) {
            let expected = whole.as_ref().and_then(|json| json.pointer(&pointer(tokens))).and_then(Value::as_str);
            prop_assert_eq!(Some(read.as_str()), expected, "{}", original.name);
        }
    }

    #[test]
    fn handshakes_never_panic_and_echo_no_page(which in any::<Index>(), mutation in mutation()) {
        let (original, source) = &VALID[which.index(VALID.len())];
        let secret = source.secrets.first().cloned().unwrap_or_else(|| Secret::new("0123456789abcdef").unwrap());
        let mutated = mutation.applied(original);
        for handshake in handshakes(&secret) {
            mutated.with_request(|request| {
                let _ = handshake.signed(request, Some(&secret));
                if let Some(answer) = handshake.unsigned(request) {
                    assert!(answer.body.is_empty() || answer.nosniff, "{handshake:?}");
                }
            });
        }
    }
}

#[test]
fn every_shipped_preset_is_mutated() {
    let presets: BTreeSet<_> = VALID.iter().map(|(vector, _)| vector.preset.as_str()).collect();
    let shipped: BTreeSet<_> = crate::presets().iter().map(|preset| preset.name).collect();
    assert_eq!(shipped.difference(&presets).copied().collect::<Vec<_>>(), [""; 0]);
}
