//! Every recorded handshake: the request through its preset, the answer as the provider expects it.

use super::vectors::Vector;
use super::*;
use oncefold_signature::{Answer, Handshake, Reply, Request, Secret, UnixTime, Verdict};
use serde_json::Value;

const HANDSHAKES: &str = include_str!("../../testdata/handshakes.json");

/// What has no handshake: an answer to every delivery is `respond`, GoPay's comes with fetching, GitHub's ping is an event.
const NO_HANDSHAKE: [&str; 3] = ["gopay/notification_ack", "adyen/ack_standard", "github/ping"];

/// The handshake of a provider, and the settings that verify what is signed in it.
fn provider(name: &str, case: &Value) -> (Handshake, Option<&'static str>) {
    let configured = |key: &str| Secret::new(case["config"][key].as_str().unwrap()).unwrap();
    match name {
        "slack" => (Handshake::Slack, Some("preset = 'slack'")),
        "meta" => (Handshake::Meta { verify_token: configured("verify_token") }, None),
        "zoom" => (Handshake::Zoom, Some("preset = 'zoom'")),
        "dropbox" => (Handshake::Dropbox, None),
        "microsoft_graph" => (Handshake::MicrosoftGraph, None),
        "okta" => (Handshake::Okta, Some("verify = { scheme = 'token', in = 'header', name = 'authorization' }")),
        "xero" => (Handshake::Xero, Some("preset = 'xero'")),
        "discord" => (Handshake::Discord, Some("preset = 'discord'")),
        "sns" => (Handshake::Sns { topics: vec!["arn:aws:sns:eu-west-1:123456789012:orders".to_owned()] }, None),
        "woocommerce" => (Handshake::WooCommerce, None),
        "intercom" => (Handshake::Probe, None),
        other => panic!("no handshake for {other}"),
    }
}

/// What a server does: unsigned handshakes, then verification, then signed ones; 401 where it fails.
fn answered(
    handshake: &Handshake,
    settings: Option<&str>,
    secrets: &[&str],
    request: &Request<'_>,
    now: UnixTime,
) -> Answer {
    if let Some(answer) = handshake.unsigned(request) {
        return answer;
    }
    let variables: Vec<_> = secrets.iter().map(|secret| ("SECRET", *secret)).collect();
    let text = format!("[sources.x]\n{}\nsecrets = ['env:SECRET']", settings.expect("settings that verify"));
    let source = load_with(&text, &variables).unwrap().config.sources.remove(0);
    let refused = Answer { status: 401, content_type: None, nosniff: false, body: String::new() };
    match source.verifier.verify(request, now) {
        Verdict::Invalid(_) => refused,
        Verdict::Valid(verified) => {
            let secret = verified.secret_index.and_then(|index| source.secrets.get(index));
            match handshake.signed(request, secret) {
                Some(Reply::Answer(answer)) => answer,
                other => panic!("{other:?}"),
            }
        }
    }
}

fn check(name: &str, answer: &Answer, expected: &Value) {
    assert_eq!(u64::from(answer.status), expected["status"].as_u64().unwrap(), "{name}");
    if let Some(body) = expected["body"].as_str() {
        assert_eq!(answer.body, body, "{name}");
    }
    if let Some(content_type) = expected["content_type"].as_str() {
        assert_eq!(answer.content_type, Some(content_type), "{name}");
    }
    let nosniff =
        expected["headers"]["x-content-type-options"] == "nosniff" || answer.content_type == Some("text/plain");
    assert!(!nosniff || answer.nosniff, "{name}");
}

#[test]
fn every_handshake_gets_its_answer() {
    let cases: Vec<Value> = serde_json::from_str(HANDSHAKES).unwrap();
    let mut answered_cases = 0;
    for case in &cases {
        let provider_name = case["provider"].as_str().unwrap();
        let name = format!("{provider_name}/{}", case["name"].as_str().unwrap());
        // SNS is confirmed by hand below: its recorded body is in no file.
        if NO_HANDSHAKE.contains(&name.as_str()) || provider_name == "sns" || case["request"].is_string() {
            continue;
        }
        let (handshake, settings) = provider(provider_name, case);
        let request = &case["request"];
        let url = request["url"].as_str().unwrap_or_default();
        let given = request["headers"].as_object();
        let headers: Vec<(&str, &[u8])> = given
            .into_iter()
            .flatten()
            .map(|(name, value)| (name.as_str(), value.as_str().unwrap().as_bytes()))
            .collect();
        let secrets: Vec<_> = match case["config"]["authorization"].as_str() {
            Some(token) => vec![token],
            None => case["secrets"].as_array().into_iter().flatten().filter_map(Value::as_str).collect(),
        };
        let request = Request {
            method: request["method"].as_str().unwrap(),
            url: None,
            query: url.split_once('?').map_or("", |(_, query)| query),
            path_token: None,
            headers: &headers,
            body: request["body"].as_str().unwrap_or_default().as_bytes(),
        };
        let now = UnixTime::from_secs(case["now"].as_i64().unwrap_or_default());
        check(&name, &answered(&handshake, settings, &secrets, &request, now), &case["expected_response"]);
        answered_cases += 1;
    }
    assert_eq!(answered_cases, 11);
}

/// The cases whose request is a vector: Discord's ping. Xero's vectors are not recorded, so one is signed here.
#[test]
fn pings_that_are_vectors_are_answered() {
    let vectors = Vector::all();
    let ping = vectors.iter().find(|vector| vector.name == "discord/ping-valid").unwrap();
    ping.with_request(|request| {
        let secrets = [ping.secrets[0].as_str()];
        let answer = answered(&Handshake::Discord, Some("preset = 'discord'"), &secrets, request, ping.now);
        assert_eq!((answer.status, answer.body.as_str()), (200, "{\"type\":1}"));
        assert_eq!(answer.content_type, Some("application/json"));
    });
    // `openssl dgst -sha256 -hmac xero-webhook-key -binary | base64` over the body.
    let body = br#"{"events":[],"firstEventSequence":0,"lastEventSequence":0,"entropy":"S0m3r4Nd0mt3xt"}"#;
    for (signature, status) in [(XERO_SIGNED, 200), ("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=", 401)] {
        let headers: [(&str, &[u8]); 1] = [("x-xero-signature", signature.as_bytes())];
        let request = Request { method: "POST", url: None, query: "", path_token: None, headers: &headers, body };
        let answer = answered(
            &Handshake::Xero,
            Some("preset = 'xero'"),
            &["xero-webhook-key"],
            &request,
            UnixTime::from_secs(0),
        );
        assert_eq!((answer.status, answer.body.as_str(), answer.content_type), (status, "", None));
    }
}

const XERO_SIGNED: &str = "Jk5oeRqkvxspr6ZqkjgzOcJkUe7yZPsZrwBHTeueGFc=";

#[test]
fn presets_do_the_handshakes_of_their_providers() {
    let expected = [
        ("discord", Handshake::Discord),
        ("dropbox", Handshake::Dropbox),
        ("intercom", Handshake::Probe),
        ("slack", Handshake::Slack),
        ("woocommerce", Handshake::WooCommerce),
        ("xero", Handshake::Xero),
        ("zoom", Handshake::Zoom),
    ];
    let key = "11e9c531075802432bb1ad390e7722c53621c8c8d263ade206e912161c7b480a";
    for (preset, handshake) in expected {
        let source = load(&format!("[sources.x]\npreset = '{preset}'\nsecrets = ['{key}']")).unwrap();
        assert_eq!(source.config.sources[0].handshake, Some(handshake), "{preset}");
    }
    let topic = "arn:aws:sns:eu-west-1:123456789012:orders";
    let sns = load(&format!("[sources.x]\npreset = 'sns'\nverify = {{ topics = ['{topic}'] }}")).unwrap();
    assert_eq!(sns.config.sources[0].handshake, Some(Handshake::Sns { topics: vec![topic.to_owned()] }));
    // The token of the preset's text is an example; without one of the user's own nobody can subscribe.
    let meta = load(&format!("[sources.x]\npreset = 'meta'\nsecrets = ['{key}']")).unwrap();
    assert_eq!(meta.config.sources[0].handshake, None);
    assert_eq!(places(&meta.warnings), ["2: sources.x.handshake.kind"]);
}
