//! Handshakes over HTTP: exact answers, no events, nothing a browser takes for a page. Requests and answers are those of
//! handshakes.json, which oncefold-config holds too.

use crate::fakes::NOW_S;
use crate::harness::{Answer, SECRET, Setup, eventually, keys, post, source, svix, svix_lines, token};
use async_trait::async_trait;
use oncefold_core::{Clock, Timestamp};
use oncefold_ingest::{IntakeSource, Outbound, OutboundAnswer};
use oncefold_signature::{Handshake, HmacScheme, Scheme, Secret, SignaturePlace, SignedTime, SnsScheme, TokenPlace};
use serde_json::Value;
use std::sync::{Arc, Mutex};

const CASES: &str = include_str!("../../../oncefold-config/testdata/handshakes.json");

/// The recorded request as bytes, for this source.
fn recorded(provider: &str, name: &str, to: &str) -> (Vec<u8>, Value) {
    let cases: Vec<Value> = serde_json::from_str(CASES).unwrap();
    let case = cases.into_iter().find(|case| case["provider"] == provider && case["name"] == name).unwrap();
    let request = &case["request"];
    let query = request["url"].as_str().and_then(|url| url.split_once('?'));
    let query = query.map_or(String::new(), |(_, query)| format!("?{query}"));
    let headers = request["headers"].as_object().into_iter().flatten();
    let lines: String = headers.map(|(name, value)| format!("{name}: {}\r\n", value.as_str().unwrap())).collect();
    let (method, body) = (request["method"].as_str().unwrap(), request["body"].as_str().unwrap_or_default());
    let length = body.len();
    let head = format!("{method} /in/{to}{query} HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n{lines}\r\n");
    ([head.as_bytes(), body.as_bytes()].concat(), case["expected_response"].clone())
}

fn with(mut source: IntakeSource, handshake: Handshake) -> IntakeSource {
    source.keys.handshake = Some(handshake);
    source
}

fn expect(answer: &Answer, expected: &Value) {
    assert_eq!(u64::from(answer.status), expected["status"].as_u64().unwrap());
    let body = expected["body"].as_str().unwrap_or_default();
    assert!(expected["body"].is_null() || answer.body == body.as_bytes(), "{answer:?}");
    if let Some(content_type) = expected["content_type"].as_str() {
        assert_eq!(answer.headers["content-type"], content_type);
        assert_eq!(answer.headers["x-content-type-options"], "nosniff");
    }
    assert!(!answer.headers.contains_key("set-cookie"));
}

/// When Slack's and Zoom's requests were recorded.
struct Recorded;

impl Clock for Recorded {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(1_760_000_000_000_000)
    }
}

fn v0(header: &str, time: &str) -> Scheme {
    let mut scheme = HmacScheme::over_body(header);
    scheme.signature = SignaturePlace { prefix: "v0=".to_owned(), ..SignaturePlace::header(header) };
    scheme.signed = "v0:{timestamp}:{body}".parse().unwrap();
    scheme.time = Some(SignedTime::header(time));
    Scheme::Hmac(scheme)
}

#[tokio::test]
async fn unsigned_handshakes_are_answered_to_the_letter() {
    let verify_token = Secret::new("meatyhamhock").unwrap();
    let sources = [
        ("h-meta", Handshake::Meta { verify_token }),
        ("h-dropbox", Handshake::Dropbox),
        ("h-graph", Handshake::MicrosoftGraph),
        ("h-woo", Handshake::WooCommerce),
        ("h-intercom", Handshake::Probe),
    ];
    let sources = sources.map(|(name, handshake)| with(source(name, &svix(), SECRET), handshake));
    let intake = Setup::of(sources.to_vec()).start().await;
    for (provider, name, to) in [
        ("meta", "hub_challenge", "h-meta"),
        ("meta", "hub_challenge_wrong_token", "h-meta"),
        ("meta", "hub_challenge_xss", "h-meta"),
        ("dropbox", "challenge", "h-dropbox"),
        ("microsoft_graph", "validation_token", "h-graph"),
        ("woocommerce", "creation_ping", "h-woo"),
    ] {
        let (request, expected) = recorded(provider, name, to);
        expect(&intake.ask(&request).await, &expected);
    }
    let mut client = intake.connect().await;
    client.send(b"HEAD /in/h-intercom HTTP/1.1\r\nHost: x\r\n\r\n").await;
    assert_eq!(client.head().await.status, 200);
    assert_eq!((intake.queue.entered(), intake.spool.entered()), (0, 0), "none is an event");
    assert_eq!(intake.counted("h-meta", "handshake"), 3);
}

#[tokio::test]
async fn what_is_no_handshake_is_as_it_was() {
    let sources = vec![
        with(source("h-get", &svix(), SECRET), Handshake::Dropbox),
        with(source("h-ping", &svix(), SECRET), Handshake::WooCommerce),
        source("h-none", &svix(), SECRET),
    ];
    let intake = Setup::of(sources).start().await;
    for target in ["/in/h-get", "/in/h-get?challenge=", "/in/h-get?challenge=a&challenge=b", "/in/h-none?challenge=a"] {
        let answer = intake.ask(format!("GET {target} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes()).await;
        let allow = if target.contains("h-none") { "POST" } else { "POST, GET" };
        assert_eq!((answer.status, answer.headers["allow"].as_str()), (405, allow), "{target}");
    }
    // Even where everything is signed: a method of handshakes brings no events.
    let body = br#"{"id":"e","type":"t"}"#;
    let signed = svix_lines(body, NOW_S);
    let get = String::from_utf8(post("/in/h-get", &signed, body)).unwrap().replacen("POST", "GET", 1);
    assert_eq!(intake.ask(get.as_bytes()).await.status, 405);
    assert_eq!(intake.ask(&post("/in/h-ping", "", b"webhook_id=5&status=paid")).await.status, 401);
    assert_eq!(intake.ask(&post("/in/h-get", &signed, body)).await.status, 200);
    assert_eq!(intake.queue.taken().len(), 1);
}

#[tokio::test]
async fn signed_handshakes_are_verified_first() {
    let slack = v0("x-slack-signature", "x-slack-request-timestamp");
    let zoom = v0("x-zm-signature", "x-zm-request-timestamp");
    let okta = token(TokenPlace::Header("authorization".to_owned()));
    let mut setup = Setup::of(vec![
        with(source("h-slack", &slack, "8f742231b10e8888abcd99yyyzzz85a5"), Handshake::Slack),
        with(source("h-zoom", &zoom, "zoom-secret-token"), Handshake::Zoom),
        with(source("h-okta", &okta, "my-shared-secret"), Handshake::Okta),
    ]);
    setup.clock = Arc::new(Recorded);
    let intake = setup.start().await;
    for (provider, name, to) in [
        ("slack", "url_verification", "h-slack"),
        ("slack", "url_verification_bad_signature", "h-slack"),
        ("zoom", "url_validation_crc", "h-zoom"),
        ("okta", "one_time_verification", "h-okta"),
    ] {
        let (request, expected) = recorded(provider, name, to);
        let answer = intake.ask(&request).await;
        expect(&answer, &expected);
        assert!(answer.status == 200 || !String::from_utf8_lossy(&answer.body).contains("3eZbrw1aBm2r"));
    }
    let (request, _) = recorded("okta", "one_time_verification", "h-okta");
    let forged = String::from_utf8(request).unwrap().replace("my-shared-secret", "another");
    assert_eq!(intake.ask(forged.as_bytes()).await.status, 401);
    let other = "GET /in/h-okta HTTP/1.1\r\nHost: x\r\nAuthorization: my-shared-secret\r\n\r\n";
    assert_eq!(intake.ask(other.as_bytes()).await.status, 405);
    assert_eq!(intake.queue.entered(), 0);
}

#[tokio::test]
async fn pings_of_xero_and_discord_get_their_own_answers() {
    let sources = vec![
        with(source("h-xero", &svix(), SECRET), Handshake::Xero),
        with(source("h-discord", &svix(), SECRET), Handshake::Discord),
    ];
    let intake = Setup::of(sources).start().await;
    let ask = async |to: &str, body: &[u8]| {
        let answer = intake.ask(&post(&format!("/in/{to}"), &svix_lines(body, NOW_S), body)).await;
        (answer.status, String::from_utf8(answer.body).unwrap(), answer.headers.get("content-type").cloned())
    };
    assert_eq!(ask("h-xero", br#"{"events":[]}"#).await, (200, String::new(), None));
    let json = Some("application/json".to_owned());
    assert_eq!(ask("h-discord", br#"{"type":1}"#).await, (200, r#"{"type":1}"#.to_owned(), json));
    assert_eq!(ask("h-discord", br#"{"type":0}"#).await, (204, String::new(), None));
    assert_eq!(intake.queue.entered(), 0);
    // Intent to receive, badly signed: the status and nothing else.
    let refused = intake.ask(&post("/in/h-xero", "", br#"{"events":[]}"#)).await;
    assert_eq!((refused.status, refused.body.as_slice()), (401, &b""[..]));
    assert!(!refused.headers.contains_key("content-type"));
    assert_eq!(ask("h-xero", br#"{"events":[{}]}"#).await.0, 200);
    assert_eq!(intake.queue.taken().len(), 1);
}

/// Remembers what it was asked for.
#[derive(Default)]
struct Asked(Mutex<Vec<String>>);

#[async_trait]
impl Outbound for Asked {
    async fn get(&self, url: &str) -> Result<OutboundAnswer, String> {
        self.0.lock().unwrap().push(url.to_owned());
        Ok(OutboundAnswer { status: 200, body: vec![] })
    }
}

/// The signature of SNS is tested elsewhere: here is what becomes of a confirmation that verified.
#[tokio::test]
async fn only_listed_topics_are_confirmed() {
    let topic = "arn:aws:sns:eu-west-1:123456789012:orders";
    let scheme = Scheme::Sns(SnsScheme { topics: vec![topic.to_owned()], certificates: vec![] });
    let listed = Handshake::Sns { topics: vec![topic.to_owned()] };
    let mut real = source("h-sns-real", &Scheme::None, "");
    real.keys = keys(&scheme, vec![], Some(listed.clone()));
    let asked = Arc::new(Asked::default());
    let mut setup = Setup::of(vec![with(source("h-sns", &svix(), SECRET), listed), real]);
    setup.outbound = Some(Arc::<Asked>::clone(&asked) as _);
    let intake = setup.start().await;
    let url = "https://sns.eu-west-1.amazonaws.com/?Action=ConfirmSubscription&Token=1";
    let body = |topic: &str, url: &str| {
        format!(r#"{{"Type":"SubscriptionConfirmation","TopicArn":"{topic}","SubscribeURL":"{url}"}}"#)
    };
    let send = async |to: &str, body: String| {
        let lines = svix_lines(body.as_bytes(), NOW_S);
        intake.ask(&post(&format!("/in/{to}"), &lines, body.as_bytes())).await.status
    };
    assert_eq!(send("h-sns", body(topic, "https://attacker.example/")).await, 403);
    assert_eq!(send("h-sns", body("arn:aws:sns:eu-west-1:2:other", url)).await, 403);
    assert_eq!(send("h-sns-real", body(topic, url)).await, 401, "what is not signed confirms nothing");
    assert_eq!(send("h-sns", body(topic, url)).await, 200);
    eventually("the subscription is confirmed", || !asked.0.lock().unwrap().is_empty()).await;
    assert_eq!(*asked.0.lock().unwrap(), [url]);
    assert_eq!(intake.queue.entered(), 0);
}
