use crate::testing::{OPERATOR, StandingClock, VIEWER, tokens};
use crate::{AdminError, AdminParts, AdminSettings, build};
use oncefold_telemetry::Metrics;
use oncefold_testkit::fakes::FakeStore;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

const PATIENCE: Duration = Duration::from_secs(10);

fn parts(listen: &str, tokens: Vec<crate::AdminToken>) -> AdminParts {
    parts_over(FakeStore::default(), listen, tokens)
}

fn parts_over(store: FakeStore, listen: &str, tokens: Vec<crate::AdminToken>) -> AdminParts {
    AdminParts {
        settings: AdminSettings { listen: listen.parse().unwrap(), tokens },
        configured_sources: vec![],
        store: Arc::new(store),
        diagnose: None,
        queue: None,
        clock: Arc::new(StandingClock::at_start()),
        metrics: Arc::new(Metrics::register("0").unwrap()),
    }
}

struct Running {
    at: SocketAddr,
    soft: CancellationToken,
    hard: CancellationToken,
    ended: tokio::task::JoinHandle<Result<(), AdminError>>,
}

async fn running() -> Running {
    running_over(FakeStore::default()).await
}

async fn running_over(store: FakeStore) -> Running {
    let admin = build(parts_over(store, "127.0.0.1:0", tokens())).await.unwrap();
    let (soft, hard) = (CancellationToken::new(), CancellationToken::new());
    let at = admin.local_addr();
    Running { at, ended: tokio::spawn(admin.run_until_stopped(soft.clone(), hard.clone())), soft, hard }
}

impl Running {
    async fn ends(self) {
        timeout(PATIENCE, self.ended).await.expect("it stops").unwrap().unwrap();
        assert!(TcpStream::connect(self.at).await.is_err(), "it still listens");
    }
}

fn get(path: &str, token: &str, more: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: admin\r\nAuthorization: Bearer {token}\r\n{more}\r\n")
}

async fn ask(at: SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(at).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    timeout(PATIENCE, stream.read_to_end(&mut answer)).await.expect("it answers").unwrap();
    String::from_utf8(answer).unwrap()
}

/// Waits until a connection says or ends something, and gives what it said.
async fn next_of(stream: &mut TcpStream) -> Vec<u8> {
    let mut answer = vec![0; 4096];
    let read = timeout(PATIENCE, stream.read(&mut answer)).await.expect("it answers").unwrap();
    answer.truncate(read);
    answer
}

#[tokio::test]
async fn without_tokens_it_listens_on_loopback_only() {
    for open in ["0.0.0.0:0", "[::]:0", "192.0.2.1:0", "[::ffff:192.0.2.1]:0"] {
        let refused = build(parts(open, vec![])).await.err().unwrap();
        assert!(matches!(refused, AdminError::Unprotected(_)), "{open}: {refused}");
        assert!(refused.to_string().contains("oncefold token"), "{refused}");
    }
    let closed = build(parts("127.0.0.1:0", vec![])).await.unwrap();
    assert!(closed.local_addr().ip().is_loopback() && closed.local_addr().port() != 0);
}

#[tokio::test]
async fn an_address_in_use_is_named() {
    let first = build(parts("127.0.0.1:0", tokens())).await.unwrap();
    let taken = first.local_addr();
    let refused = build(parts(&taken.to_string(), tokens())).await.err().unwrap();
    assert!(matches!(&refused, AdminError::Bind { listen, .. } if *listen == taken), "{refused}");
    assert!(refused.to_string().contains(&taken.to_string()), "{refused}");
}

#[tokio::test]
async fn it_answers_over_http() {
    let running = running().await;
    let answer = ask(running.at, &get("/api/v1/events", VIEWER, "Connection: close\r\n")).await;
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert!(answer.ends_with(r#"{"items":[],"next_cursor":null}"#), "{answer}");
    let answer = ask(running.at, &get("/api/v1/events", "no", "Connection: close\r\n")).await;
    assert!(answer.starts_with("HTTP/1.1 401 "), "{answer}");
    running.soft.cancel();
    running.ends().await;
}

/// Idle and silent connections do not hold a soft stop up.
#[tokio::test]
async fn a_soft_stop_lets_idle_connections_go() {
    let running = running().await;
    let _silent = TcpStream::connect(running.at).await.unwrap();
    let mut idle = TcpStream::connect(running.at).await.unwrap();
    idle.write_all(get("/api/v1/events", VIEWER, "").as_bytes()).await.unwrap();
    assert!(next_of(&mut idle).await.starts_with(b"HTTP/1.1 200"));
    running.soft.cancel();
    assert_eq!(next_of(&mut idle).await, b"");
    running.ends().await;
}

/// A request in hand is finished by a soft stop, and ended by a hard one.
#[tokio::test]
async fn a_soft_stop_finishes_what_is_in_hand_a_hard_one_does_not() {
    let head = format!(
        "POST /api/v1/dead-letters/x/discard HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {OPERATOR}\r\n\
         Content-Length: 14\r\nExpect: 100-continue\r\n\r\n"
    );
    for finish in [true, false] {
        let running = running().await;
        let mut stream = TcpStream::connect(running.at).await.unwrap();
        stream.write_all(head.as_bytes()).await.unwrap();
        // The handler has begun to read the body.
        assert!(next_of(&mut stream).await.starts_with(b"HTTP/1.1 100"));
        running.soft.cancel();
        if finish {
            stream.write_all(br#"{"reason":"x"}"#).await.unwrap();
            assert!(next_of(&mut stream).await.starts_with(b"HTTP/1.1 404"));
        } else {
            running.hard.cancel();
            let mut rest = Vec::new();
            drop(timeout(PATIENCE, stream.read_to_end(&mut rest)).await.expect("it ends"));
            assert!(rest.is_empty());
        }
        running.ends().await;
    }
}

#[tokio::test]
async fn a_head_that_is_too_long_is_refused() {
    let running = running().await;
    let long = format!("X-Long: {}\r\n", "x".repeat(64 * 1024));
    let answer = ask(running.at, &get("/api/v1/events", VIEWER, &long)).await;
    assert!(answer.starts_with("HTTP/1.1 431 "), "{answer}");
    running.hard.cancel();
    running.ends().await;
}

/// A store that does not come back holds a soft stop up, but not a hard one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hard_stop_does_not_wait_for_the_store() {
    let store = FakeStore::default();
    let (begun, mut has_begun) = tokio::sync::mpsc::channel(1);
    let (release, released) = std::sync::mpsc::channel::<()>();
    store.with_faults(|faults| {
        faults.hook = Some(Box::new(move |_| {
            begun.try_send(()).ok();
            released.recv().ok();
            None
        }));
    });
    let running = running_over(store).await;
    let mut stream = TcpStream::connect(running.at).await.unwrap();
    let id = "019b7d2f-0000-7000-8000-000000000000";
    let head = get(&format!("/api/v1/events/{id}/replay"), OPERATOR, "Content-Length: 0\r\n").replace("GET", "POST");
    stream.write_all(head.as_bytes()).await.unwrap();
    timeout(PATIENCE, has_begun.recv()).await.expect("the change has begun");
    running.soft.cancel();
    running.hard.cancel();
    running.ends().await;
    drop(release);
}
