//! What is logged, how much of it, and what never is.

use crate::fakes::{Behaviour, NOW_S};
use crate::harness::{
    SECRET, Setup, TOKEN, eventually, lines_about, log_text, post, signed, source, svix, svix_lines, token,
};
use oncefold_signature::{Scheme, TokenPlace};
use serde_json::Value;

#[tokio::test]
async fn an_accepted_delivery_is_one_line_that_names_it() {
    let intake = Setup::of(vec![source("l-accept", &Scheme::None, "")]).start().await;
    let answer = intake.ask(&post("/in/l-accept", "", br#"{"id":"evt\n\u001b[1m","type":"t"}"#)).await;
    let lines = lines_about("l-accept");
    let [line] = lines.as_slice() else { panic!("{lines:?}") };
    assert_eq!(line["level"], "INFO");
    let fields = &line["fields"];
    assert_eq!(fields["event"], intake.queue.taken()[0].id.to_string());
    assert_eq!((&fields["event_id"], &fields["outcome"]), (&Value::from(r"evt\n\u{1b}[1m"), &Value::from("accepted")));
    assert_eq!(fields["trace"], answer.headers["oncefold-trace"]);
}

#[tokio::test]
async fn what_is_refused_is_one_line_with_a_reason() {
    let mut setup = Setup::of(vec![source("l-refuse", &svix(), SECRET)]);
    (setup.queue, setup.spool) = (Behaviour::Fail, Some(Behaviour::Fail));
    let intake = setup.start().await;
    for (request, level, outcome, reason) in [
        (post("/in/l-refuse", "", b"{}"), "WARN", "rejected", "missing_header"),
        (post("/in/l-refuse", &svix_lines(b"{}", NOW_S - 400), b"{}"), "WARN", "rejected", "timestamp_too_old"),
        (b"GET /in/l-refuse HTTP/1.1\r\nHost: x\r\n\r\n".to_vec(), "WARN", "wrong_method", "wrong_method"),
        (signed("/in/l-refuse", b"{}"), "ERROR", "unavailable", "unavailable"),
    ] {
        let answer = intake.ask(&request).await;
        let lines = lines_about("l-refuse");
        let line = lines.iter().find(|line| line["fields"]["trace"] == answer.headers["oncefold-trace"]).unwrap();
        let fields = &line["fields"];
        assert_eq!(line["level"], level);
        assert_eq!((&fields["outcome"], &fields["reason"]), (&Value::from(outcome), &Value::from(reason)));
        assert!(fields["detail"].as_str().unwrap().len() > 10);
    }
}

#[tokio::test]
async fn names_of_unknown_sources_are_cut_and_escaped() {
    let intake = Setup::of(vec![]).start().await;
    let answer = intake.ask(&post(&format!("/in/l%1b[31m{}/{TOKEN}", "y".repeat(5_000)), "", b"")).await;
    assert_eq!(answer.status, 404);
    let lines = lines_about("unknown");
    let line =
        lines.iter().find(|line| line["fields"]["name"].as_str().is_some_and(|name| name.contains("31m"))).unwrap();
    let name = line["fields"]["name"].as_str().unwrap();
    assert_eq!(name, format!("l%1b[31m{}…", "y".repeat(64 - 8)));
}

/// A forger's thousand attempts are ten lines a second, and a count of the rest.
#[tokio::test]
async fn a_flood_of_rejections_is_few_lines_and_a_count() {
    let intake = Setup::of(vec![source("l-flood", &svix(), SECRET)]).start().await;
    let began = tokio::time::Instant::now();
    let mut client = intake.connect().await;
    for _ in 0..500 {
        client.send(&post("/in/l-flood", "", b"{}")).await;
        assert_eq!(client.answer().await.unwrap().status, 401);
    }
    let written = |lines: &[Value]| lines.iter().filter(|line| line["fields"]["outcome"] == "rejected").count() as u64;
    let suppressed =
        |lines: &[Value]| lines.iter().filter_map(|line| line["fields"]["suppressed"].as_u64()).sum::<u64>();
    eventually("every attempt is accounted for", || {
        let lines = lines_about("l-flood");
        written(&lines) + suppressed(&lines) == 500
    })
    .await;
    let windows = began.elapsed().as_secs() + 1;
    assert!(written(&lines_about("l-flood")) <= 10 * windows);
    assert_eq!(intake.counted("l-flood", "rejected"), 500);
}

#[tokio::test]
async fn no_line_holds_a_secret_a_signature_or_a_body() {
    const CANARY: &str = "b0dy-nobody-may-log";
    let sources = vec![
        source("l-svix", &svix(), SECRET),
        source("l-path", &token(TokenPlace::Path), TOKEN),
        source("l-query", &token(TokenPlace::Query("key".to_owned())), TOKEN),
        source("l-header", &token(TokenPlace::Header("X-Key".to_owned())), TOKEN),
    ];
    let body = format!(r#"{{"id":"1","type":"t","note":"{CANARY}"}}"#).into_bytes();
    let lines = svix_lines(&body, NOW_S);
    let signature = lines.split_once("v1,").unwrap().1.trim().to_owned();
    for queue in [Behaviour::Take, Behaviour::Fail] {
        let mut setup = Setup::of(sources.clone());
        (setup.queue, setup.spool) = (queue, None);
        let intake = setup.start().await;
        for request in [
            post("/in/l-svix", &lines, &body),
            post("/in/l-svix", &lines, &[&body[..], b" "].concat()),
            post("/in/l-svix", &lines.replace("v1,", ""), &body),
            post(&format!("/in/l-path/{TOKEN}"), "", &body),
            post(&format!("/in/l-paht/{TOKEN}"), "", &body),
            post(&format!("/in/l-path/{TOKEN}x"), "", &body),
            post(&format!("/in/l-query?key={TOKEN}"), "", &body),
            post(&format!("/in/l-query?key={TOKEN}&key=2"), "", &body),
            post("/in/l-header", &format!("X-Key: {TOKEN}\r\n"), &body),
        ] {
            intake.ask(&request).await;
        }
    }
    let text = log_text();
    assert!(text.contains("l-svix") && text.contains("l-header"));
    let secret = SECRET.trim_start_matches("whsec_");
    for hidden in [secret, TOKEN, CANARY, signature.as_str()] {
        assert!(!text.contains(hidden), "{hidden} is in the log");
    }
}
