//! What providers do beside one JSON event a request: several events, forms, queries, compression, keys that change.

use crate::fakes::{Behaviour, NOW_S};
use crate::harness::{SECRET, Setup, keys, lines_about, post, source, svix, svix_lines};
use flate2::Compression;
use flate2::write::GzEncoder;
use http::Method;
use oncefold_core::locator::Locator;
use oncefold_core::model::{BodyFormat, IdRule};
use oncefold_core::{Clock, Timestamp};
use oncefold_ingest::{Outbound, OutboundAnswer};
use oncefold_signature::{PayPalScheme, Scheme, Secret, TrustRoots};
use serde_json::Value;
use std::io::Write as _;
use std::sync::Arc;

fn at(text: &str) -> Locator {
    Locator::parse(text).unwrap()
}

fn signed(to: &str, body: &[u8]) -> Vec<u8> {
    post(&format!("/in/{to}"), &svix_lines(body, NOW_S), body)
}

#[tokio::test]
async fn elements_are_events_with_their_exact_bytes() {
    let mut batches = source("p-split", &svix(), SECRET);
    batches.split = Some(vec!["events".to_owned()]);
    let intake = Setup::of(vec![batches]).start().await;
    let body = br#"{"seq": 1, "events": [ {"id":"a",  "type":"t.1"}, {"type":"t.2","id":"b"} ,{"id":""}] }"#;
    assert_eq!(intake.ask(&signed("p-split", body)).await.status, 200);
    let taken = intake.queue.taken();
    let bodies: Vec<_> = taken.iter().map(|message| std::str::from_utf8(&message.body).unwrap()).collect();
    assert_eq!(bodies, [r#"{"id":"a",  "type":"t.1"}"#, r#"{"type":"t.2","id":"b"}"#, r#"{"id":""}"#]);
    assert_eq!((taken[0].event_id.as_str(), taken[1].event_id.as_str()), ("a", "b"));
    assert!(taken[2].event_id.starts_with("sha256:"), "an element without an id is parked, alone");
    assert_eq!(taken[1].event_type.as_deref(), Some("t.2"));
    let traces: Vec<_> = taken.iter().map(|message| message.facts.trace_id()).collect();
    assert!(traces.iter().all(|trace| *trace == traces[0]));
    assert_eq!(intake.counted("p-split", "accepted"), 1, "one delivery");
    assert_eq!(lines_about("p-split").len(), 3, "a line an event");
}

#[tokio::test]
async fn what_cannot_be_split_is_one_event_and_nothing_is_none() {
    let mut batches = source("p-whole", &svix(), SECRET);
    batches.split = Some(vec![]);
    let intake = Setup::of(vec![batches]).start().await;
    assert_eq!(intake.ask(&signed("p-whole", b" [ ] ")).await.status, 200);
    assert_eq!(intake.queue.taken().len(), 0);
    let many = format!("[{}1]", "1,".repeat(1_000));
    for body in ["{}", "no json", many.as_str()] {
        assert_eq!(intake.ask(&signed("p-whole", body.as_bytes())).await.status, 200);
        assert_eq!(intake.queue.taken().last().unwrap().body, body);
    }
    assert_eq!(intake.queue.taken().len(), 3);
    assert_eq!(intake.ask(&signed("p-whole", many.replacen("1,", "", 1).as_bytes())).await.status, 200);
    assert_eq!(intake.queue.taken().len(), 1_003);
}

/// One of three is taken by neither: the provider has to send all of them again.
#[tokio::test]
async fn a_delivery_is_acked_only_when_all_its_events_are_durable() {
    let mut batches = source("p-all", &svix(), SECRET);
    batches.split = Some(vec![]);
    let mut setup = Setup::of(vec![batches]);
    (setup.queue, setup.spool) = (Behaviour::Refuse("b"), Some(Behaviour::Refuse("b")));
    let intake = setup.start().await;
    let body = br#"[{"id":"a","type":"t"},{"id":"b","type":"t"},{"id":"c","type":"t"}]"#;
    assert_eq!(intake.ask(&signed("p-all", body)).await.status, 503);
    assert_eq!((intake.counted("p-all", "unavailable"), intake.counted("p-all", "accepted")), (1, 0));
    intake.spool.behaves(Behaviour::Take);
    assert_eq!(intake.ask(&signed("p-all", body)).await.status, 200);
    assert_eq!(intake.counted("p-all", "spooled"), 1);
    assert_eq!(intake.spool.taken().iter().map(|m| m.event_id.as_str()).collect::<Vec<_>>(), ["b"]);
}

/// Adyen's items, of the recorded vectors.
#[tokio::test]
async fn items_are_events_and_one_bad_item_refuses_them_all() {
    let vectors = include_str!("../../../oncefold-config/testdata/vectors.json");
    let vectors: Vec<Value> = serde_json::from_str(vectors).unwrap();
    let vector = |name: &str| vectors.iter().find(|v| v["preset"] == "adyen" && v["name"] == name).unwrap();
    let rotating = vector("batch-straddling-key-rotation");
    let secrets = rotating["secrets"].as_array().unwrap().iter().map(|s| Secret::new(s.as_str().unwrap()).unwrap());
    let mut adyen = source("p-adyen", &Scheme::None, "");
    adyen.keys = keys(&Scheme::Adyen, secrets.collect(), None);
    adyen.model.id =
        IdRule::Parts(["/merchantAccountCode", "/pspReference", "/eventCode", "/success"].map(at).to_vec());
    adyen.model.event_type = at("/eventCode");
    let intake = Setup::of(vec![adyen]).start().await;
    let send = async |vector: &Value| {
        let body = vector["body"].as_str().unwrap().as_bytes();
        intake.ask(&post("/in/p-adyen", "Content-Type: application/json\r\n", body)).await.status
    };
    assert_eq!(send(vector("batch-second-item-unsigned")).await, 401);
    assert_eq!(intake.queue.entered(), 0, "not the good item either: the whole delivery comes again");
    let reported = lines_about("p-adyen").remove(0)["fields"]["detail"].as_str().unwrap().to_owned();
    assert!(reported.contains("item 2 of 2"), "{reported}");
    assert_eq!(send(rotating).await, 200);
    let taken = intake.queue.taken();
    let items: Value = serde_json::from_str(rotating["body"].as_str().unwrap()).unwrap();
    let mut used: Vec<_> = vec![];
    for (at, message) in taken.iter().enumerate() {
        let item = &items["notificationItems"][at]["NotificationRequestItem"];
        assert_eq!(serde_json::from_slice::<Value>(&message.body).unwrap(), *item);
        assert!(
            rotating["body"].as_str().unwrap().contains(std::str::from_utf8(&message.body).unwrap()),
            "exact bytes"
        );
        assert_eq!(message.event_type.as_deref(), item["eventCode"].as_str());
        used.push(message.facts.decode().secret_index);
    }
    used.sort_unstable();
    assert_eq!(used, [Some(0), Some(1)]);
    for secret in ["0", "1"] {
        assert_eq!(intake.metrics.ingest_secret_matches.with_label_values(&["p-adyen", secret]).get(), 1);
    }
}

#[tokio::test]
async fn forms_and_queries_have_ids_and_types() {
    let rule = || IdRule::Parts(vec![at("/sid"), at("/status")]);
    let mut form = source("p-form", &Scheme::None, "");
    (form.model.id, form.model.event_type, form.model.format) = (rule(), at("/status"), BodyFormat::Form);
    let mut query = source("p-query", &Scheme::None, "");
    (query.model.id, query.model.event_type, query.model.format) = (rule(), at("/status"), BodyFormat::Query);
    (query.methods, query.redact_query) = (vec![Method::GET, Method::POST], vec!["key".to_owned()]);
    let intake = Setup::of(vec![form, query]).start().await;
    let body = b"sid=S%201&status=sent&x=a+b";
    assert_eq!(intake.ask(&post("/in/p-form", "", body)).await.status, 200);
    let asked = b"GET /in/p-query?sid=S%201&status=sent&key=secret HTTP/1.1\r\nHost: x\r\n\r\n";
    assert_eq!(intake.ask(asked).await.status, 200);
    assert_eq!(intake.ask(&post("/in/p-query?a=1", "", body)).await.status, 200);
    let taken = intake.queue.taken();
    for message in &taken {
        assert_eq!((message.event_id.as_str(), message.event_type.as_deref()), ("S 1:sent", Some("sent")));
    }
    assert_eq!((&taken[0].body[..], &taken[2].body[..]), (&body[..], &body[..]));
    assert_eq!(taken[1].body, "sid=S%201&status=sent&key=[redacted]", "the query is the event, without its secret");
}

#[tokio::test]
async fn compressed_bodies_are_verified_as_they_came_and_kept_inflated() {
    let gzip = |body: &[u8]| {
        let mut encoder = GzEncoder::new(vec![], Compression::default());
        encoder.write_all(body).unwrap();
        encoder.finish().unwrap()
    };
    let mut allowed = source("p-gzip", &svix(), SECRET);
    allowed.takes_gzip = true;
    let intake = Setup::of(vec![allowed, source("p-plain", &svix(), SECRET)]).start().await;
    let body = br#"{"id": "evt_1", "type": "t"}"#;
    let send = async |to: &str, encoding: &str, body: &[u8]| {
        let lines = format!("{}Content-Encoding: {encoding}\r\n", svix_lines(body, NOW_S));
        intake.ask(&post(&format!("/in/{to}"), &lines, body)).await
    };
    assert_eq!(send("p-gzip", "gzip", &gzip(body)).await.status, 200);
    assert_eq!(send("p-gzip", "identity", body).await.status, 200);
    assert!(intake.queue.taken().iter().all(|message| message.body == body[..] && message.event_id == "evt_1"));
    let refused = send("p-gzip", "br", body).await;
    assert_eq!((refused.status, refused.headers["accept-encoding"].as_str()), (415, "gzip, identity"));
    assert_eq!(send("p-plain", "gzip", &gzip(body)).await.status, 415);
    assert_eq!(send("p-gzip", "gzip", &gzip(&vec![b' '; 2 << 20])).await.status, 413);
    assert_eq!(intake.queue.taken().len(), 2);
    assert_eq!(send("p-gzip", "gzip", b"no gzip").await.status, 200, "it verified: a worker parks it");
    assert_eq!(intake.queue.taken()[2].body, "no gzip");
    let forged = post("/in/p-gzip", "Content-Encoding: gzip\r\n", &gzip(body));
    assert_eq!(intake.ask(&forged).await.status, 401);
}

#[tokio::test]
async fn keys_are_exchanged_without_losing_a_request() {
    let intake = Setup::of(vec![source("p-rotate", &svix(), SECRET)]).start().await;
    let body = br#"{"id":"e","type":"t"}"#;
    assert_eq!(intake.ask(&signed("p-rotate", body)).await.status, 200);
    let other = Secret::new("whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD").unwrap();
    // A connection that was open before stays.
    let mut client = intake.connect().await;
    assert!(intake.key_ring.exchange("p-rotate", keys(&svix(), vec![other.clone()], None)));
    client.send(&signed("p-rotate", body)).await;
    assert_eq!(client.answer().await.unwrap().status, 401);
    let both = vec![other, Secret::new(SECRET).unwrap()];
    assert!(intake.key_ring.exchange("p-rotate", keys(&svix(), both, None)));
    client.send(&signed("p-rotate", body)).await;
    assert_eq!(client.answer().await.unwrap().status, 200);
    assert_eq!(intake.queue.taken()[1].facts.decode().secret_index, Some(1));
    assert!(!intake.key_ring.exchange("p-nobody", keys(&svix(), vec![Secret::new(SECRET).unwrap()], None)));
}

/// The chain and signature of oncefold-signature's tests, made by openssl; the chain is valid from 2026-11-30.
mod paypal {
    use super::*;

    const CHAIN: &[u8] = include_bytes!("../../../oncefold-signature/src/testdata/chain.pem");
    const ROOT: &str = include_str!("../../../oncefold-signature/src/testdata/root.pem");
    const BODY: &[u8] = br#"{"id":"WH-1","amount":"25.00"}"#;
    const SIGNATURE: &str = "oPbhQG94fVuxh7Da20G+JiCqlUebN+eNd+Os9la+JE4Plle8m7S5IMXnA040LFFp670kdP37MGp9ePCLwQCBtqJPwTsThNHgb1JlDpc3YRRoOZQmQ4jit0UZfrookxBXiBFAdYuRn1G0yJsNNbpfdEhzkBFG5LBnBia7TaePJKZM77cWdA4chnFBBhriJ3nt8tTzKdFdXapKfTvkx+qbqz2D4CEXMRh44e8kHz30WKrC4//wq00WGwJ5AVSPGg5qdoOFTxhUoliFWAL9HZk4TFNBDo3YokOdV9xYMIMXO+inYzwjUZcz5aScKI7d8zYuAk4wQfnfqArUdrZzH8GUCQ==";

    struct Later;

    impl Clock for Later {
        fn now(&self) -> Timestamp {
            Timestamp::from_micros(1_800_000_000_000_000)
        }
    }

    struct Host;

    #[async_trait::async_trait]
    impl Outbound for Host {
        async fn get(&self, url: &str) -> Result<OutboundAnswer, String> {
            match url.rsplit_once('/').unwrap().1 {
                "CERT-1" => Ok(OutboundAnswer { status: 200, body: CHAIN.to_vec() }),
                "AWAY" => Err("connection refused".to_owned()),
                _ => Ok(OutboundAnswer { status: 404, body: vec![] }),
            }
        }
    }

    #[tokio::test]
    async fn a_fetched_certificate_verifies() {
        use base64::Engine as _;
        let root: String = ROOT.lines().filter(|line| !line.starts_with('-')).collect();
        let root = base64::engine::general_purpose::STANDARD.decode(root).unwrap();
        let mut paypal = source("p-paypal", &Scheme::None, "");
        paypal.keys =
            keys(&Scheme::PayPal(PayPalScheme::default()), vec![Secret::new("1JE4291016473214C").unwrap()], None);
        paypal.model.event_type = at("/id");
        let mut setup = Setup::of(vec![paypal]);
        setup.outbound = Some(Arc::new(Host));
        setup.roots = TrustRoots::of([root.as_slice()]);
        setup.clock = Arc::new(Later);
        let intake = setup.start().await;
        let send = async |url: &str, body: &[u8]| {
            let lines = format!(
                "PayPal-Transmission-Id: id-1\r\nPayPal-Transmission-Time: 2025-10-09T08:53:20Z\r\n\
                 PayPal-Auth-Algo: SHA256withRSA\r\nPayPal-Cert-Url: {url}\r\nPayPal-Transmission-Sig: {SIGNATURE}\r\n"
            );
            intake.ask(&post("/in/p-paypal", &lines, body)).await.status
        };
        let pinned = "https://api.paypal.com/v1/notifications/certs";
        assert_eq!(send(&format!("{pinned}/CERT-1"), BODY).await, 200);
        assert_eq!(intake.queue.taken()[0].event_id, "WH-1");
        assert_eq!(send(&format!("{pinned}/CERT-1"), b"{}").await, 401);
        assert_eq!(send(&format!("{pinned}/OTHER"), BODY).await, 401);
        assert_eq!(send("https://attacker.example/v1/notifications/certs/CERT-1", BODY).await, 401);
        assert_eq!(send(&format!("{pinned}/AWAY"), BODY).await, 503, "it may be there when it is sent again");
        assert_eq!(intake.queue.taken().len(), 1);
    }
}
