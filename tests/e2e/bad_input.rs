//! Bad input gets an answer from the contract's table, a bounded log line and a metric; a verified event is never
//! lost (P4, P5). What concerns HTTP alone is tested in `oncefold-ingest`; here is what has to come out at the end.

use crate::first_look::orders;
use oncefold_e2e::{Api, Backend, Deployment, Provider};
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Body and the reason it is parked for; none where it is applied.
fn cases() -> Vec<(Vec<u8>, Option<&'static str>)> {
    let order = |rest: &str| format!("{{\"type\":\"order.paid\",\"id\":\"o\",\"version\":1{rest}}}").into_bytes();
    let long = "x".repeat(10_000);
    let nested = |n: usize| format!("{}{}", "[".repeat(n), "]".repeat(n));
    vec![
        (vec![], Some("mapping.invalid_json")),
        (b"{\"type\":\"order.paid\",\"id\":\"\xFF\",\"version\":1}".to_vec(), Some("mapping.invalid_json")),
        (nested(100_000).into_bytes(), Some("mapping.invalid_json")),
        (order(&format!(",\"deep\":{}", nested(127))), None),
        (order(&format!(",\"deep\":{}", nested(128))), Some("mapping.invalid_json")),
        (order(",\"note\":\"a\\u0000b\""), None),
        (order(",\"version\":2"), None),
        (order(",\"big\":123456789012345678901234567890,\"huge\":1e400,\"tiny\":-1.5E-5"), None),
        (order(",\"too\":1e1000"), Some("mapping.bad_number")),
        (format!("{{\"type\":\"{long}\",\"id\":\"o\",\"version\":1}}").into_bytes(), Some("mapping.bad_type")),
        (format!("{{\"type\":\"order.paid\",\"id\":\"{long}\",\"version\":1}}").into_bytes(), Some("mapping.bad_key")),
        (b"{\"type\":\"order.paid\",\"id\":\"a\\u0000\",\"version\":1}".to_vec(), Some("mapping.bad_key")),
        (b"{\"type\":\"order.paid\",\"id\":\"o\"}".to_vec(), Some("mapping.missing_version")),
        (
            b"{\"type\":\"order.paid\",\"id\":\"o\",\"version\":\"9999-01-01T00:00:00Z\"}".to_vec(),
            Some("mapping.future_version"),
        ),
        (b"{\"type\":\"order.paid\",\"version\":1}".to_vec(), Some("mapping.missing_key")),
        (b"{\"id\":\"o\",\"version\":1}".to_vec(), Some("mapping.missing_type")),
        (b"[1,2]".to_vec(), Some("mapping.missing_type")),
        (b"\"text\"".to_vec(), Some("mapping.missing_type")),
    ]
}

#[test]
fn every_verified_body_ends_somewhere() {
    for backend in [Backend::Embedded, Backend::Fleet] {
        let deployment = Deployment::on(backend, &orders());
        let mut serve = deployment.start(&["serve"]);
        let (ingest, api) = (serve.address("intake"), Api::at(serve.address("admin")));
        let provider = Provider::of("shop");
        for (n, (body, _)) in cases().iter().enumerate() {
            assert_eq!(provider.send(ingest, &format!("msg_{n}"), body).unwrap().status, 200, "case {n}");
        }
        let long_id = format!("msg_{}", "i".repeat(10_000));
        assert_eq!(provider.send(ingest, &long_id, b"{}").unwrap().status, 200, "verified, though its id is too long");
        let events = api.settled("", cases().len() + 1, Duration::from_secs(30));
        for (n, (body, reason)) in cases().iter().enumerate() {
            let event = api.get(&format!("/events?event_id=msg_{n}"))["items"][0].clone();
            assert_eq!(event["error"]["reason"].as_str(), *reason, "{backend:?}, case {n}: {event}");
            let shown = deployment.cli(&["events", "show", event["id"].as_str().unwrap(), "--body"]);
            assert!(shown.stdout == *body, "case {n}: the exact bytes are kept");
        }
        let bad_id = events.iter().find(|e| e["event_id"].as_str().unwrap().starts_with("sha256:")).unwrap();
        assert_eq!(bad_id["error"]["reason"], "mapping.bad_id");
        // Of the applied ones the last by version is the one with two `version` members: the last member counts.
        assert_eq!(api.get("/entities/order/o")["version"], "2");
    }
}

/// Raw requests and the status that must come; `{}` is the address.
#[test]
fn broken_requests_get_an_answer_and_harm_nobody() {
    let deployment = Deployment::on(Backend::Embedded, &orders());
    let mut serve = deployment.start(&["serve"]);
    let ingest = serve.address("intake");
    for (request, status) in [
        ("GET /in/shop HTTP/1.1\r\nHost: x\r\n\r\n", "405"),
        ("POST /in/..%2fshop HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n", "404"),
        ("POST /in/%00 HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n", "404"),
        ("POST /in/nobody HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n", "404"),
        ("POST /in/shop HTTP/1.1\r\nHost: x\r\nContent-Length: 10485760\r\n\r\n", "413"),
        ("POST /in/shop HTTP/1.1\r\nHost: x\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\n{}", "415"),
        ("POST /in/shop HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}", "401"),
        (
            "POST /in/shop HTTP/1.1\r\nHost: x\r\nsvix-id: a\r\nsvix-id: b\r\nsvix-timestamp: 1\r\nsvix-signature: v1,x\r\nContent-Length: 2\r\n\r\n{}",
            "401",
        ),
        (
            "POST /in/shop HTTP/1.1\r\nHost: x\r\nsvix-id: \u{e9}\r\nsvix-timestamp: 1\r\nsvix-signature: v1,x\r\nContent-Length: 2\r\n\r\n{}",
            "401",
        ),
        ("garbage\r\n\r\n", "400"),
    ] {
        let answer = raw(ingest, request.as_bytes());
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{request:?}: {answer}");
    }
    let pipelined = "POST /in/shop HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}".repeat(3);
    assert_eq!(raw(ingest, pipelined.as_bytes()).matches("HTTP/1.1 401").count(), 3, "pipelining");
    let idle: Vec<TcpStream> = (0..2_000).map(|_| TcpStream::connect(ingest).unwrap()).collect();
    let body = br#"{"type":"order.paid","id":"o","version":1}"#;
    assert_eq!(Provider::of("shop").send(ingest, "msg_1", body).unwrap().status, 200, "beside 2,000 idle connections");
    drop(idle);
    let log = serve.stderr();
    assert!(log.iter().all(|line| line.len() < 2_000), "log lines are bounded");
    assert_eq!(serve.stop(), Some(0));
}

/// Sends bytes, closes that direction, reads to the end.
fn raw(to: SocketAddr, request: &[u8]) -> String {
    let mut stream = TcpStream::connect(to).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream.write_all(request).unwrap();
    let _ = stream.shutdown(std::net::Shutdown::Write);
    let mut answer = vec![];
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}
