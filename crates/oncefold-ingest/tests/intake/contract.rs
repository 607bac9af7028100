//! Every row of contract.md, "Intake".

use crate::fakes::{Behaviour, NOW_S};
use crate::harness::{SECRET, Setup, TOKEN, post, signed, source, svix, svix_lines, token};
use bytes::Bytes;
use http::{HeaderValue, Method, StatusCode};
use oncefold_core::{Digest, Message};
use oncefold_ingest::{IngestError, Respond};
use oncefold_signature::{Scheme, TokenPlace};
use serde_json::json;
use std::time::Duration;

const BODY: &[u8] = br#"{"id": "evt_1",  "type": "order.paid"}"#;

#[tokio::test]
async fn a_verified_delivery_is_published_as_it_came_and_accepted() {
    let intake = Setup::of(vec![source("c-accept", &svix(), SECRET)]).start().await;
    let lines =
        format!("{}Content-Type: application/json; charset=utf-8\r\nX-Note: caf\u{e9}\r\n", svix_lines(BODY, NOW_S));
    let answer = intake.ask(&post("/in/c-accept?a=1", &lines, BODY)).await;
    assert_eq!((answer.status, answer.body.as_slice()), (200, &br#"{"status":"accepted"}"#[..]));
    assert_eq!(answer.headers["content-type"], "application/json");

    let taken = intake.queue.taken();
    let [message] = taken.as_slice() else { panic!("one event") };
    assert_eq!(message.body, BODY);
    assert_eq!(message.digest, Digest::of(BODY));
    assert_eq!((message.source.as_str(), message.event_id.as_str()), ("c-accept", "evt_1"));
    assert_eq!(message.event_type.as_deref(), Some("order.paid"));
    assert_eq!(message.received_at.as_micros(), NOW_S * 1_000_000);
    assert_eq!((message.generation, message.attempts), (0, 0));
    // A UUIDv7 begins with the milliseconds it was made at.
    assert_eq!(message.id.to_string().replace('-', "")[..12], format!("{:012x}", NOW_S * 1000));
    let facts = message.facts.decode();
    assert_eq!(facts.trace_id, answer.headers["oncefold-trace"]);
    assert_eq!(facts.trace_id.len(), 32);
    assert_eq!(facts.content_type.as_deref(), Some("application/json; charset=utf-8"));
    assert_eq!((facts.query.as_str(), facts.scheme.as_str()), ("a=1", "standard-webhooks"));
    assert_eq!(facts.secret_index, Some(0));
    let header = |name: &str| facts.headers.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str());
    assert_eq!((header("svix-id"), header("x-note")), (Some("msg_1"), Some("caf\u{e9}")));
    assert_eq!(intake.counted("c-accept", "accepted"), 1);
    assert_eq!(intake.metrics.ingest_ack_seconds.with_label_values(&["c-accept"]).get_sample_count(), 1);
    assert_eq!(intake.metrics.publish_seconds.get_sample_count(), 1);
}

#[tokio::test]
async fn repeats_are_published_again_and_answered_alike() {
    let intake = Setup::of(vec![source("c-repeat", &svix(), SECRET)]).start().await;
    for _ in 0..2 {
        assert_eq!(intake.ask(&signed("/in/c-repeat", BODY)).await.status, 200);
    }
    let taken = intake.queue.taken();
    assert_eq!((taken[0].event_id.as_str(), taken[1].event_id.as_str()), ("evt_1", "evt_1"));
    assert_ne!(taken[0].id, taken[1].id);
}

#[tokio::test]
async fn a_preset_says_what_an_accepted_delivery_is_answered_with() {
    let mut adyen = source("c-respond", &Scheme::None, "");
    adyen.respond = Respond {
        status: StatusCode::ACCEPTED,
        body: Bytes::from_static(b"[accepted]"),
        content_type: Some(HeaderValue::from_static("text/plain")),
    };
    let intake = Setup::of(vec![adyen]).start().await;
    let answer = intake.ask(&post("/in/c-respond", "", BODY)).await;
    assert_eq!((answer.status, answer.body.as_slice()), (202, &b"[accepted]"[..]));
    assert_eq!(answer.headers["content-type"], "text/plain");
}

/// One answer for every reason: the body, the headers, everything but the trace.
#[tokio::test]
async fn what_does_not_verify_is_answered_401_without_a_reason() {
    let intake = Setup::of(vec![source("c-forged", &svix(), SECRET)]).start().await;
    let good = svix_lines(BODY, NOW_S);
    let attempts = [
        post("/in/c-forged", "", BODY),
        post("/in/c-forged", &good, b"{}"),
        post("/in/c-forged", &svix_lines(BODY, NOW_S - 301), BODY),
        post("/in/c-forged", &svix_lines(BODY, NOW_S + 301), BODY),
        post("/in/c-forged", &format!("{good}{good}"), BODY),
        post("/in/c-forged", &good.replace("v1,", "v1,\u{e9}"), BODY),
        post("/in/c-forged", &good.replace("v1,", ""), BODY),
    ];
    for attempt in &attempts {
        let mut answer = intake.ask(attempt).await;
        assert_eq!(answer.status, 401);
        let expected = json!({
            "type": "about:blank", "title": "Unauthorized", "status": 401,
            "detail": "The delivery could not be verified."
        });
        assert_eq!(answer.problem(), expected);
        assert!(["oncefold-trace", "date"].iter().all(|name| answer.headers.remove(*name).is_some()));
        let mut names: Vec<_> = answer.headers.keys().map(String::as_str).collect();
        names.sort_unstable();
        assert_eq!(names, ["content-length", "content-type", "www-authenticate"]);
    }
    assert_eq!(intake.counted("c-forged", "rejected"), attempts.len() as u64);
    assert_eq!((intake.queue.entered(), intake.spool.entered()), (0, 0));
}

#[tokio::test]
async fn paths_that_are_no_source_are_404() {
    let intake =
        Setup::of(vec![source("c-known", &Scheme::None, ""), source("c-pathtoken", &token(TokenPlace::Path), TOKEN)])
            .start()
            .await;
    let long = format!("/in/{}", "x".repeat(10_000));
    let paths = [
        "/",
        "/in",
        "/in/",
        "/in//",
        "/in/nope",
        "/in/C-KNOWN",
        "/in/c-known/",
        "/in/c-known/extra",
        "/in/c-known//",
        "/in/..%2f",
        "/in/..",
        "/in/../in/c-known",
        "/in/%00",
        "/in/c-known%00",
        "/in/c%2dknown",
        "/in/%ff%fe",
        "/in/c-known%2f",
        "/in/c-pathtoken/a/b",
        "/in/c-pathtoken/",
        "//in/c-known",
        "/IN/c-known",
        long.as_str(),
    ];
    for path in paths {
        let answer = intake.ask(&post(path, "", BODY)).await;
        assert_eq!(answer.status, 404, "{path}");
        assert_eq!(answer.problem()["title"], "Not Found");
        assert!(!String::from_utf8_lossy(&answer.body).contains("nope"));
    }
    assert_eq!(intake.counted("unknown", "unknown_source"), paths.len() as u64);
    assert_eq!(intake.queue.entered(), 0);
}

#[tokio::test]
async fn other_methods_are_405_with_allow() {
    let mut gopay = source("c-method", &Scheme::None, "");
    gopay.methods = vec![Method::GET, Method::POST];
    let intake = Setup::of(vec![gopay, source("c-post", &Scheme::None, "")]).start().await;
    for method in ["GET", "HEAD", "PUT", "DELETE", "OPTIONS", "BREW"] {
        let answer = {
            let mut client = intake.connect().await;
            client
                .send(format!("{method} /in/c-post HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").as_bytes())
                .await;
            // The answer to HEAD has a length and no body.
            let answer = if method == "HEAD" { client.head().await } else { client.answer().await.unwrap() };
            assert!(client.is_at_end().await);
            answer
        };
        assert_eq!((answer.status, answer.headers["allow"].as_str()), (405, "POST"), "{method}");
    }
    let answer = intake.ask(b"PUT /in/c-method HTTP/1.1\r\nHost: x\r\n\r\n").await;
    assert_eq!((answer.status, answer.headers["allow"].as_str()), (405, "GET, POST"));
    assert_eq!(intake.ask(b"GET /in/c-method?id=1 HTTP/1.1\r\nHost: x\r\n\r\n").await.status, 200);
    assert_eq!(intake.counted("c-post", "wrong_method"), 6);
}

#[tokio::test]
async fn an_encoded_body_is_415() {
    let intake = Setup::of(vec![source("c-encoding", &Scheme::None, "")]).start().await;
    for line in [
        "Content-Encoding: gzip\r\n",
        "Content-Encoding: identity, br\r\n",
        "content-encoding: identity\r\ncontent-encoding: deflate\r\n",
    ] {
        let answer = intake.ask(&post("/in/c-encoding", line, BODY)).await;
        assert_eq!((answer.status, answer.headers["accept-encoding"].as_str()), (415, "identity"), "{line}");
    }
    for line in ["Content-Encoding: Identity\r\n", "Content-Encoding:\r\n"] {
        assert_eq!(intake.ask(&post("/in/c-encoding", line, BODY)).await.status, 200, "{line}");
    }
    assert_eq!(intake.counted("c-encoding", "unsupported_encoding"), 3);
}

/// A worker parks these; the provider is told nothing, and the events are kept under their digests.
#[tokio::test]
async fn verified_bodies_without_id_type_or_json_are_accepted() {
    let intake = Setup::of(vec![source("c-unreadable", &svix(), SECRET)]).start().await;
    let deep = "[".repeat(100_000);
    let long_id = format!(r#"{{"id":"{}"}}"#, "i".repeat(10_000));
    let bodies: &[&[u8]] = &[
        b"",
        b"not json",
        b"{}",
        b"\xff\xfe",
        br#"{"id":7,"type":"t"}"#,
        br#"{"id":"a\u0000b"}"#,
        b"{\"id\":\"x\"",
        deep.as_bytes(),
        long_id.as_bytes(),
    ];
    for body in bodies {
        assert_eq!(intake.ask(&signed("/in/c-unreadable", body)).await.status, 200);
    }
    let taken = intake.queue.taken();
    assert_eq!(taken.len(), bodies.len());
    for (message, body) in taken.iter().zip(bodies) {
        assert_eq!(message.event_id, Message::fallback_event_id(&Digest::of(body)));
        assert_eq!(&message.body, body);
    }
}

#[tokio::test]
async fn a_type_that_is_too_long_or_a_repeated_member_does_not_hinder_the_id() {
    let intake = Setup::of(vec![source("c-odd", &Scheme::None, "")]).start().await;
    let long = format!(r#"{{"id":"a","type":"{}"}}"#, "t".repeat(10_000));
    for body in [long.as_bytes(), br#"{"id":"z","id":"b","type":"x","n":1e400,"m":123456789012345678901234567890}"#] {
        assert_eq!(intake.ask(&post("/in/c-odd", "", body)).await.status, 200);
    }
    let taken = intake.queue.taken();
    assert_eq!((taken[0].event_id.as_str(), taken[0].event_type.as_deref()), ("a", None));
    assert_eq!((taken[1].event_id.as_str(), taken[1].event_type.as_deref()), ("b", Some("x")));
}

#[tokio::test]
async fn tokens_verify_in_path_query_and_header_and_are_not_kept() {
    let sources = vec![
        source("c-tpath", &token(TokenPlace::Path), TOKEN),
        source("c-tquery", &token(TokenPlace::Query("key".to_owned())), TOKEN),
        source("c-theader", &token(TokenPlace::Header("X-Key".to_owned())), TOKEN),
        source("c-tbasic", &Scheme::Basic, "user:pass"),
    ];
    let intake = Setup::of(sources).start().await;
    let encoded = TOKEN.replace('-', "%2D");
    let requests = [
        post(&format!("/in/c-tpath/{encoded}"), &format!("X-Original-Uri: /in/c-tpath/{TOKEN}\r\n"), BODY),
        post(&format!("/in/c-tquery?key={TOKEN}&a=1"), "", BODY),
        post("/in/c-theader", &format!("X-Key: {TOKEN}\r\n"), BODY),
        // RFC 7617: base64 of `user:pass`.
        post("/in/c-tbasic", "Authorization: Basic dXNlcjpwYXNz\r\n", BODY),
    ];
    for request in &requests {
        assert_eq!(intake.ask(request).await.status, 200);
    }
    for message in intake.queue.taken() {
        let facts = message.facts.as_str();
        assert!(!facts.contains(TOKEN) && !facts.contains("dXNlcjpwYXNz"), "{facts}");
        assert!(facts.contains("[redacted]"), "{facts}");
    }
    for (request, challenge) in [
        (post("/in/c-tpath/wrong", "", BODY), "Signature realm=\"oncefold\""),
        (post("/in/c-tpath", "", BODY), "Signature realm=\"oncefold\""),
        (post("/in/c-tbasic", "", BODY), "Basic realm=\"oncefold\""),
    ] {
        let answer = intake.ask(&request).await;
        assert_eq!((answer.status, answer.headers["www-authenticate"].as_str()), (401, challenge));
    }
}

#[tokio::test]
async fn neither_queue_nor_spool_is_503_with_retry_after() {
    let mut setup = Setup::of(vec![source("c-nowhere", &Scheme::None, "")]);
    (setup.queue, setup.spool) = (Behaviour::Fail, Some(Behaviour::Fail));
    setup.settings.retry_after = Duration::from_secs(7);
    let intake = setup.start().await;
    let answer = intake.ask(&post("/in/c-nowhere", "", BODY)).await;
    assert_eq!((answer.status, answer.headers["retry-after"].as_str()), (503, "7"));
    assert_eq!(answer.problem()["title"], "Service Unavailable");
    assert_eq!(intake.counted("c-nowhere", "unavailable"), 1);
}

#[tokio::test]
async fn settings_that_cannot_work_are_refused_at_start() {
    let mut silent = source("c-silent", &Scheme::None, "");
    silent.methods = vec![];
    for sources in [vec![silent], vec![source("c-twice", &Scheme::None, ""), source("c-twice", &Scheme::None, "")]] {
        assert!(matches!(Setup::of(sources).build().await, Err(IngestError::Source { .. })));
    }
    let intake = Setup::of(vec![]).start().await;
    let mut setup = Setup::of(vec![]);
    setup.settings.listen = intake.address;
    let error = setup.build().await.err().unwrap();
    assert!(matches!(error, IngestError::Listen { .. }));
    assert!(error.to_string().contains(&intake.address.to_string()));
}
