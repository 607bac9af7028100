//! Input that means harm: sizes, speeds, framing, connections that do nothing.

use crate::fakes::Behaviour;
use crate::harness::{Client, DEADLINE, Intake, SECRET, Setup, chunked, eventually, post, signed, source, svix};
use oncefold_core::locator::Locator;
use oncefold_core::model::IdRule;
use oncefold_signature::Scheme;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::{interval, timeout};

const BODY: &[u8] = br#"{"id":"evt_1","type":"order.paid"}"#;
const LIMIT: usize = 1_000;

async fn open(name: &str, change: impl FnOnce(&mut Setup)) -> Intake {
    let mut setup = Setup::of(vec![source(name, &Scheme::None, "")]);
    setup.settings.max_body = LIMIT;
    change(&mut setup);
    setup.start().await
}

#[tokio::test]
async fn the_limit_itself_fits_and_one_byte_more_does_not() {
    let intake = open("h-limit", |_| {}).await;
    for (request, status) in [
        (post("/in/h-limit", "", &[b'x'; LIMIT]), 200),
        (post("/in/h-limit", "", &[b'x'; LIMIT + 1]), 413),
        (chunked("/in/h-limit", &[LIMIT]), 200),
        (chunked("/in/h-limit", &[LIMIT - 1, 1]), 200),
        (chunked("/in/h-limit", &[1; LIMIT]), 200),
        (chunked("/in/h-limit", &[LIMIT + 1]), 413),
        (chunked("/in/h-limit", &[LIMIT, 1]), 413),
        (chunked("/in/h-limit", &[1; LIMIT + 1]), 413),
        (chunked("/in/h-limit", &[]), 200),
    ] {
        let answer = intake.ask(&request).await;
        assert_eq!(answer.status, status);
    }
    let lengths: Vec<_> = intake.queue.taken().iter().map(|m| m.body.len()).collect();
    assert_eq!(lengths, [LIMIT, LIMIT, LIMIT, LIMIT, 0]);
    assert!(intake.queue.taken().iter().all(|m| m.body.iter().all(|b| *b == b'x')));
    assert_eq!(intake.counted("h-limit", "too_large"), 4);
}

/// A client that writes everything before it reads still gets its answer, and the connection ends.
#[tokio::test]
async fn ten_megabytes_are_413_with_and_without_a_length() {
    let intake = open("h-huge", |_| {}).await;
    let declared = post("/in/h-huge", "", &vec![b'x'; 10_000_000]);
    for request in [declared, chunked("/in/h-huge", &[100_000; 100])] {
        let client = intake.connect().await;
        let (mut reading, mut writing) = client.stream.into_split();
        let sent = tokio::spawn(async move {
            let result = tokio::io::AsyncWriteExt::write_all(&mut writing, &request).await;
            (result, writing)
        });
        let mut read = vec![];
        // The end of the connection may be a reset; what was read before it counts.
        drop(timeout(DEADLINE, tokio::io::AsyncReadExt::read_to_end(&mut reading, &mut read)).await.unwrap());
        assert!(read.starts_with(b"HTTP/1.1 413 "), "{}", String::from_utf8_lossy(&read));
        drop(timeout(DEADLINE, sent).await.expect("the server does not leave the client hanging"));
    }
    assert_eq!(intake.counted("h-huge", "too_large"), 2);
}

#[tokio::test]
async fn a_declared_length_over_the_limit_is_413_before_any_of_it_is_sent() {
    let intake = open("h-declared", |_| {}).await;
    for expect in ["", "Expect: 100-continue\r\n"] {
        let head = format!("POST /in/h-declared HTTP/1.1\r\nHost: x\r\nContent-Length: 1001\r\n{expect}\r\n");
        let mut client = intake.connect().await;
        client.send(head.as_bytes()).await;
        let answer = client.answer().await.unwrap();
        assert_eq!((answer.status, answer.headers["connection"].as_str()), (413, "close"));
        assert!(client.is_at_end().await);
    }
}

/// The rest of a refused body is thrown away for a moment: a reset could overtake the answer on its way.
#[tokio::test]
async fn a_client_that_goes_on_sending_after_its_413_is_not_reset() {
    let intake = open("h-linger", |_| {}).await;
    let mut client = intake.connect().await;
    client.send(b"POST /in/h-linger HTTP/1.1\r\nHost: x\r\nContent-Length: 300000\r\n\r\n").await;
    assert_eq!(client.answer().await.unwrap().status, 413);
    for _ in 0..3 {
        client.send(&[b'x'; 100_000]).await;
    }
    tokio::io::AsyncWriteExt::shutdown(&mut client.stream).await.unwrap();
    let read = timeout(DEADLINE, tokio::io::AsyncReadExt::read(&mut client.stream, &mut [0; 8])).await.unwrap();
    assert_eq!(read.expect("no reset"), 0);
}

#[tokio::test]
async fn a_client_that_waits_for_100_continue_gets_it() {
    let intake = open("h-expect", |_| {}).await;
    let mut client = intake.connect().await;
    let head = format!(
        "POST /in/h-expect HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\nExpect: 100-continue\r\n\r\n",
        BODY.len()
    );
    client.send(head.as_bytes()).await;
    assert_eq!(client.answer().await.unwrap().status, 100);
    client.send(BODY).await;
    assert_eq!(client.answer().await.unwrap().status, 200);
    assert_eq!(intake.queue.taken()[0].body, BODY);
}

#[tokio::test]
async fn a_body_that_stalls_or_trickles_is_408() {
    let intake = open("h-slow", |setup| setup.settings.body_timeout = Duration::from_millis(200)).await;
    let head = b"POST /in/h-slow HTTP/1.1\r\nHost: x\r\nContent-Length: 900\r\n\r\n{";
    let mut stalls = intake.connect().await;
    stalls.send(head).await;
    let answer = stalls.answer().await.unwrap();
    assert_eq!((answer.status, answer.headers["connection"].as_str()), (408, "close"));

    // Bytes that keep coming do not extend the deadline.
    let mut trickles = intake.connect().await;
    trickles.send(head).await;
    let mut pace = interval(Duration::from_millis(10));
    let answer = loop {
        tokio::select! {
            answer = trickles.answer() => break answer.unwrap(),
            _ = pace.tick() => {}
        }
        // Writing fails once the server has closed; the answer is read above.
        let _ = trickles.stream.try_write(b" ");
    };
    assert_eq!(answer.status, 408);
    assert_eq!(intake.counted("h-slow", "too_slow"), 2);
    assert_eq!(intake.queue.entered(), 0);
}

#[tokio::test]
async fn a_head_that_does_not_end_ends_the_connection() {
    let intake = open("h-head", |setup| setup.settings.header_timeout = Duration::from_millis(100)).await;
    for head in [&b""[..], b"POST /in/h-head HTTP/1.1\r\nHo"] {
        let mut client = intake.connect().await;
        client.send(head).await;
        assert!(client.is_at_end().await);
    }
    // A kept connection is idle no longer than that either.
    let mut client = intake.connect().await;
    client.send(&post("/in/h-head", "", BODY)).await;
    assert_eq!(client.answer().await.unwrap().status, 200);
    assert!(client.is_at_end().await);
}

#[tokio::test]
async fn broken_framing_is_400_and_no_event() {
    let intake = open("h-framing", |_| {}).await;
    let head = "POST /in/h-framing HTTP/1.1\r\nHost: x\r\n";
    let requests = [
        format!("{head}Transfer-Encoding: chunked\r\n\r\nzz\r\nxx\r\n0\r\n\r\n"),
        format!("{head}Transfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\nxx\r\n0\r\n\r\n"),
        format!("{head}Content-Length: 2\r\nContent-Length: 3\r\n\r\n{{}}"),
        format!("{head}Content-Length: -1\r\n\r\n"),
        format!("{head}Content-Length: 99999999999999999999999\r\n\r\n"),
        "POST /in/h-framing\r\n\r\n".to_owned(),
        "\u{1}\u{2}\u{3}\r\n\r\n".to_owned(),
        format!("{head}X Y: 1\r\n\r\n"),
    ];
    for request in &requests {
        eprintln!("DBG {request:?}");
        let answer = intake.ask(request.as_bytes()).await;
        assert!(matches!(answer.status, 400 | 431), "{} for {request:?}", answer.status);
    }
    let many: String = (0..200).map(|i| format!("X-{i}: 1\r\n")).collect();
    assert_eq!(intake.ask(&post("/in/h-framing", &many, BODY)).await.status, 431);
    let long = format!("X-Long: {}\r\n", "v".repeat(200_000));
    assert_eq!(intake.ask(&post("/in/h-framing", &long, BODY)).await.status, 431);
    assert_eq!(intake.counted("h-framing", "malformed"), 2);
    assert_eq!(intake.queue.entered(), 0);
}

#[tokio::test]
async fn header_bytes_that_are_not_text_are_kept_readable() {
    let intake = Setup::of(vec![source("h-bytes", &svix(), SECRET)]).start().await;
    let mut request = signed("/in/h-bytes", BODY);
    let at = request.windows(2).position(|w| w == b"\r\n").unwrap() + 2;
    request.splice(at..at, b"X-Note: caf\xe9\xff\r\n".iter().copied());
    assert_eq!(intake.ask(&request).await.status, 200);
    let facts = intake.queue.taken()[0].facts.decode();
    let note = facts.headers.iter().find(|(name, _)| name == "x-note").unwrap();
    assert_eq!(note.1, "caf\u{fffd}\u{fffd}");
}

#[tokio::test]
async fn pipelined_requests_are_answered_in_order() {
    let intake = open("h-pipeline", |_| {}).await;
    let mut client = intake.connect().await;
    let requests = [
        post("/in/h-pipeline", "", br#"{"id":"1"}"#),
        post("/in/nowhere", "", br#"{"id":"2"}"#),
        post("/in/h-pipeline", "", br#"{"id":"3"}"#),
        post("/in/h-pipeline", "Content-Encoding: gzip\r\n", b"4"),
        post("/in/h-pipeline", "Connection: close\r\n", br#"{"id":"5"}"#),
    ];
    client.send(&requests.concat()).await;
    for status in [200, 404, 200, 415, 200] {
        assert_eq!(client.answer().await.expect("an answer").status, status);
    }
    assert!(client.is_at_end().await);
    let ids: Vec<_> = intake.queue.taken().iter().map(|m| m.event_id.clone()).collect();
    assert_eq!(ids, ["1", "3", "5"]);
}

#[tokio::test]
async fn a_client_that_goes_away_in_the_middle_of_its_body_leaves_nothing() {
    let intake = open("h-gone", |_| {}).await;
    let mut client = intake.connect().await;
    client.send(b"POST /in/h-gone HTTP/1.1\r\nHost: x\r\nContent-Length: 500\r\n\r\n{\"id\":\"1\"").await;
    drop(client);
    let mut client = intake.connect().await;
    client.send(b"POST /in/h-gone HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}").await;
    drop(client);
    eventually("both are counted", || intake.counted("h-gone", "disconnected") == 2).await;
    assert_eq!(intake.queue.entered(), 0);
}

/// A client that has sent everything may close its side and still wait for the answer.
#[tokio::test]
async fn a_client_that_closes_its_side_is_answered() {
    let gate = std::sync::Arc::new(tokio::sync::Semaphore::new(0));
    let intake = open("h-half", |setup| setup.queue = Behaviour::Gate(gate.clone())).await;
    let mut client = intake.connect().await;
    client.send(&post("/in/h-half", "", BODY)).await;
    tokio::io::AsyncWriteExt::shutdown(&mut client.stream).await.unwrap();
    eventually("it is in hand", || intake.queue.entered() == 1).await;
    let early = timeout(Duration::from_millis(50), client.is_at_end()).await;
    assert!(early.is_err(), "the server closed without an answer");
    gate.add_permits(1);
    assert_eq!(client.answer().await.unwrap().status, 200);
}

async fn idle(intake: &Intake, count: usize, begin: &[u8]) -> Vec<Client> {
    let mut clients = vec![];
    for _ in 0..count {
        let mut client = intake.connect().await;
        client.send(begin).await;
        clients.push(client);
    }
    clients
}

#[tokio::test]
async fn two_thousand_idle_connections_do_not_hinder_a_working_one() {
    let intake = open("h-idle", |_| {}).await;
    let _idle = idle(&intake, 2_000.min(connections_that_fit()), b"").await;
    assert_eq!(intake.ask(&post("/in/h-idle", "", BODY)).await.status, 200);
}

/// Connections whose both ends fit into this process's limit of open files, beside those of other tests.
fn connections_that_fit() -> usize {
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let soft =
        limits.lines().find_map(|line| line.strip_prefix("Max open files")?.split_whitespace().next()?.parse().ok());
    soft.map_or(2_000, |soft: usize| soft.saturating_sub(300) / 2)
}

/// No room: idle connections are closed to make some, also those that send their head a byte at a time.
#[tokio::test]
async fn connections_that_do_nothing_make_room() {
    for begin in [&b""[..], b"POST /in/h-room HTTP/1.1\r\nHo"] {
        let intake = open("h-room", |setup| setup.settings.max_connections = 20).await;
        let _idle = idle(&intake, 40, begin).await;
        assert_eq!(intake.ask(&post("/in/h-room", "", BODY)).await.status, 200);
    }
}

/// What is in hand is finished, whatever the pressure.
#[tokio::test]
async fn a_delivery_in_hand_is_not_closed_to_make_room() {
    let gate = std::sync::Arc::new(tokio::sync::Semaphore::new(0));
    let intake = open("h-inhand", |setup| {
        setup.settings.max_connections = 2;
        setup.settings.publish_timeout = DEADLINE;
        setup.queue = Behaviour::Gate(gate.clone());
    })
    .await;
    let mut working = intake.connect().await;
    working.send(&post("/in/h-inhand", "", BODY)).await;
    eventually("it is in hand", || intake.queue.entered() == 1).await;
    let mut idle = idle(&intake, 6, b"").await;
    // Room was made several times over once the last of them was accepted and closed again.
    for client in &mut idle[..5] {
        assert!(client.is_at_end().await);
    }
    gate.add_permits(1);
    assert_eq!(working.answer().await.expect("an answer").status, 200);
}

#[tokio::test]
async fn bodies_in_hand_are_bounded_together_and_their_share_is_given_back() {
    let intake = open("h-share", |setup| setup.settings.max_bytes_in_hand = 2_000).await;
    let half =
        [b"POST /in/h-share HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n".as_slice(), &[b'x'; 900]].concat();
    let holders = idle(&intake, 2, &half).await;
    timeout(DEADLINE, async {
        loop {
            let answer = intake.ask(&post("/in/h-share", "", &[b'x'; 300])).await;
            match answer.status {
                200 => tokio::task::yield_now().await,
                503 => break assert!(answer.headers.contains_key("retry-after")),
                other => panic!("{other}"),
            }
        }
    })
    .await
    .expect("the holders' bytes count");
    assert_eq!(intake.ask(&post("/in/h-share", "", &[b'x'; 100])).await.status, 200, "a small one still fits");
    drop(holders);
    eventually("the holders are gone", || intake.counted("h-share", "disconnected") == 2).await;
    assert_eq!(intake.ask(&post("/in/h-share", "", &[b'x'; 900])).await.status, 200);
    assert!(intake.counted("h-share", "overloaded") >= 1);
}

/// 400 MB through 16 connections: what the process holds does not grow with what went through it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_does_not_grow_with_traffic() {
    let mut raw = source("h-soak", &Scheme::None, "");
    raw.model.id = IdRule::BodyDigest;
    raw.model.event_type = Locator::parse("const:x").unwrap();
    let mut setup = Setup::of(vec![raw]);
    setup.queue = Behaviour::TakeAndForget;
    let intake = std::sync::Arc::new(setup.start().await);
    let request = std::sync::Arc::new(post("/in/h-soak", "", &vec![b'x'; 512 * 1024]));
    let round = async |requests: usize| {
        let mut clients = JoinSet::new();
        for _ in 0..16 {
            let (intake, request) = (intake.clone(), request.clone());
            clients.spawn(async move {
                let mut client = intake.connect().await;
                for _ in 0..requests {
                    client.send(&request).await;
                    assert_eq!(client.answer().await.unwrap().status, 200);
                }
            });
        }
        clients.join_all().await;
    };
    round(5).await;
    let before = resident_mib();
    round(45).await;
    let grown = resident_mib().saturating_sub(before);
    assert!(grown < 100, "grew by {grown} MiB over 360 MiB of bodies");
    assert_eq!(intake.counted("h-soak", "accepted"), 800);
}

fn resident_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let kib = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).and_then(|l| l.split_whitespace().next());
    kib.map_or(0, |kib| kib.parse::<u64>().unwrap() / 1024)
}
