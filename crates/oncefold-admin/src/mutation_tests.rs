use crate::mutation::BODY_BYTES_MAX;
use crate::testing::{Harness, OPERATOR, Reply, request};
use axum::body::Body;
use oncefold_core::store::StoreError;
use oncefold_core::{EventStatus, EventUuid, Reason};
use oncefold_testkit::fakes::Fault;
use serde_json::{Value, json};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

async fn keyed(harness: &Harness, (token, key): (&str, &str), path: &str, body: &str) -> Reply {
    let asked = request("POST", path, token).header("idempotency-key", key);
    harness.send(asked.body(Body::from(body.to_owned())).unwrap()).await
}

fn replay_of(id: EventUuid) -> String {
    format!("/api/v1/events/{id}/replay")
}

fn discard_of(id: EventUuid) -> String {
    format!("/api/v1/dead-letters/{id}/discard")
}

#[tokio::test]
async fn the_same_key_gives_the_original_answer() {
    let harness = Harness::start();
    let id = harness.applied("a", 0, vec![]).await;
    let first = keyed(&harness, (OPERATOR, "k1"), &replay_of(id), "").await;
    assert_eq!(first.status, 202);
    let again = keyed(&harness, (OPERATOR, "k1"), &replay_of(id), "").await;
    assert_eq!((again.status, &again.body), (first.status, &first.body));
    assert_eq!(again.header("content-type"), first.header("content-type"));
    assert_eq!(harness.store.audit().len(), 1);
    // Without the key it is another request, and the event is on its way already.
    assert_eq!(harness.post(&replay_of(id), "").await.problem(409, "wrong-status")["event_status"], "queued");
}

#[tokio::test]
async fn a_refusal_is_an_answer_too() {
    let harness = Harness::start();
    let id = harness.retrying("r").await;
    let first = keyed(&harness, (OPERATOR, "k"), &replay_of(id), "").await;
    first.problem(409, "wrong-status");
    let calls = harness.store.calls("replay");
    let again = keyed(&harness, (OPERATOR, "k"), &replay_of(id), "").await;
    again.problem(409, "wrong-status");
    assert_eq!((again.body, harness.store.calls("replay")), (first.body, calls));
}

#[tokio::test]
async fn a_key_is_for_one_request() {
    let harness = Harness::start();
    let (id, other) = (harness.dead("shop", "a", Reason::BadId).await, harness.dead("shop", "b", Reason::BadId).await);
    assert_eq!(keyed(&harness, (OPERATOR, "k"), &discard_of(id), r#"{"reason":"x"}"#).await.status, 200);
    let body = keyed(&harness, (OPERATOR, "k"), &discard_of(id), r#"{"reason":"y"}"#).await;
    body.problem(422, "idempotency-key-reused");
    let path = keyed(&harness, (OPERATOR, "k"), &discard_of(other), r#"{"reason":"x"}"#).await;
    path.problem(422, "idempotency-key-reused");
    assert_eq!(harness.store.audit().len(), 1);
}

#[tokio::test]
async fn keys_of_different_actors_never_meet() {
    let harness = Harness::start();
    let (id, other) = (harness.applied("a", 0, vec![]).await, harness.applied("b", 0, vec![]).await);
    assert_eq!(keyed(&harness, (OPERATOR, "k"), &replay_of(id), "").await.status, 202);
    assert_eq!(keyed(&harness, ("do-as-told-too", "k"), &replay_of(other), "").await.status, 202);
    let audit = harness.store.audit();
    assert!(audit[0].starts_with("otto ") && audit[1].starts_with("olga "), "{audit:?}");
}

#[tokio::test]
async fn an_answer_is_kept_for_a_day() {
    let harness = Harness::start();
    let id = harness.applied("a", 0, vec![]).await;
    assert_eq!(keyed(&harness, (OPERATOR, "k"), &replay_of(id), "").await.status, 202);
    harness.clock.forward(Duration::from_secs(24 * 3600));
    assert_eq!(keyed(&harness, (OPERATOR, "k"), &replay_of(id), "").await.status, 202);
    harness.clock.forward(Duration::from_micros(1));
    keyed(&harness, (OPERATOR, "k"), &replay_of(id), "").await.problem(409, "wrong-status");
}

#[tokio::test]
async fn a_failure_of_ours_frees_the_key() {
    let harness = Harness::start();
    let id = harness.applied("a", 0, vec![]).await;
    harness.store.with_faults(|faults| {
        faults.hook = Some(Box::new(|call| {
            (call == "replay").then(|| Fault::Before(StoreError::Unavailable("gone".to_owned())))
        }));
    });
    keyed(&harness, (OPERATOR, "k"), &replay_of(id), "").await.problem(503, "unavailable");
    harness.store.with_faults(|faults| faults.hook = None);
    assert_eq!(keyed(&harness, (OPERATOR, "k"), &replay_of(id), "").await.status, 202);
}

#[tokio::test]
async fn a_panic_is_answered_and_frees_the_key() {
    let harness = Harness::start();
    let id = harness.applied("a", 0, vec![]).await;
    harness.store.with_faults(|faults| {
        faults.hook = Some(Box::new(|call| if call == "event" { panic!("on purpose") } else { None }));
    });
    keyed(&harness, (OPERATOR, "k"), &replay_of(id), "").await.problem(500, "internal");
    harness.post(&replay_of(id), "").await.problem(500, "internal");
    harness.store.with_faults(|faults| faults.hook = None);
    assert_eq!(keyed(&harness, (OPERATOR, "k"), &replay_of(id), "").await.status, 202);
}

/// The key was taken by a request that is not answered yet.
#[tokio::test]
async fn a_key_in_use_says_so() {
    let harness = Harness::start();
    let id = harness.applied("a", 0, vec![]).await;
    let claim = oncefold_core::store::Idempotency {
        key: "k".to_owned(),
        actor: oncefold_core::store::Actor("otto".to_owned()),
        request: oncefold_core::Digest::of(format!("POST\n{}\n", replay_of(id)).as_bytes()),
        now: oncefold_testkit::builders::START,
        expired_before: oncefold_core::Timestamp::default(),
    };
    harness.api.act.begin_idempotent(&claim).await.unwrap();
    keyed(&harness, (OPERATOR, "k"), &replay_of(id), "").await.problem(409, "idempotency-in-progress");
    assert!(harness.store.audit().is_empty());
}

/// A caller that hangs up in the middle does not leave a change half answered.
#[tokio::test]
async fn a_change_is_finished_though_its_caller_hangs_up() {
    let harness = Harness::start();
    let id = harness.applied("a", 0, vec![]).await;
    let path = replay_of(id);
    let mut asked = Box::pin(keyed(&harness, (OPERATOR, "k"), &path, ""));
    // Polled once, which begins the change.
    let pending = std::future::poll_fn(|context| Poll::Ready(asked.as_mut().poll(context).is_pending())).await;
    assert!(pending);
    drop(asked);
    harness.api.mutations.close();
    harness.api.mutations.wait().await;
    assert_eq!(harness.store.recorded()[0].status, EventStatus::Queued);
    assert_eq!(keyed(&harness, (OPERATOR, "k"), &path, "").await.status, 202);
    assert_eq!(harness.store.audit().len(), 1);
}

#[tokio::test]
async fn a_key_is_visible_ascii_and_bounded() {
    let harness = Harness::start();
    let id = harness.applied("a", 0, vec![]).await;
    for key in ["", "a b", "é", "\t", &"x".repeat(256)] {
        let problem = keyed(&harness, (OPERATOR, key), &replay_of(id), "").await.problem(400, "bad-parameter");
        assert_eq!(problem["parameter"], "Idempotency-Key", "{key:?}");
    }
    let twice = request("POST", &replay_of(id), OPERATOR).header("idempotency-key", "a").header("idempotency-key", "a");
    harness.send(twice.body(Body::empty()).unwrap()).await.problem(400, "bad-parameter");
    assert!(harness.store.audit().is_empty());
    assert_eq!(keyed(&harness, (OPERATOR, &"x".repeat(255)), &replay_of(id), "").await.status, 202);
}

#[tokio::test]
async fn a_body_is_bounded() {
    let harness = Harness::start();
    let id = harness.dead("shop", "a", Reason::BadId).await;
    let body = |bytes: usize| format!("{{\"reason\":\"x\"}}{}", " ".repeat(bytes - 14));
    harness.post(&discard_of(id), &body(BODY_BYTES_MAX + 1)).await.problem(413, "body-too-large");
    assert!(harness.store.audit().is_empty());
    assert_eq!(harness.post(&discard_of(id), &body(BODY_BYTES_MAX)).await.status, 200);
}

/// A body of which nothing ever arrives.
struct Stalled;

impl hyper::body::Body for Stalled {
    type Data = bytes::Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<hyper::body::Frame<bytes::Bytes>, Self::Error>>> {
        Poll::Pending
    }
}

#[tokio::test(start_paused = true)]
async fn a_body_that_does_not_come_is_not_waited_for() {
    let harness = Harness::start();
    let id = harness.dead("shop", "a", Reason::BadId).await;
    let stalled = request("POST", &discard_of(id), OPERATOR).body(Body::new(Stalled)).unwrap();
    let asked = tokio::time::Instant::now();
    harness.send(stalled).await.problem(408, "slow-body");
    assert!(asked.elapsed() < Duration::from_secs(60));
}

/// Lines that were logged.
#[derive(Clone, Default)]
struct Logged(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Logged {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn a_change_is_one_line_of_log_without_its_token() {
    let harness = Harness::start();
    let (replayed, discarded) = (harness.applied("a", 0, vec![]).await, harness.dead("shop", "d", Reason::BadId).await);
    let logged = Logged::default();
    let writer = logged.clone();
    let subscriber = tracing_subscriber::fmt()
        .json()
        .with_max_level(tracing::Level::TRACE)
        .with_writer(move || writer.clone())
        .finish();
    let guard = tracing::subscriber::set_default(subscriber);
    harness.post(&replay_of(replayed), "").await;
    harness.post(&replay_of(replayed), "").await.problem(409, "wrong-status");
    keyed(&harness, (OPERATOR, "k"), &discard_of(discarded), r#"{"reason":"why not"}"#).await;
    harness.send(request("POST", &replay_of(replayed), "guess-guess").body(Body::empty()).unwrap()).await;
    drop(guard);
    let text = String::from_utf8(logged.0.lock().unwrap().clone()).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let actions: Vec<_> =
        lines.iter().filter(|line| line["level"] == "INFO").map(|line| line["fields"].clone()).collect();
    let expected = [("replay", replayed), ("discard", discarded)];
    assert_eq!(actions.len(), expected.len(), "{text}");
    for (fields, (action, id)) in actions.iter().zip(expected) {
        assert_eq!((&fields["actor"], &fields["action"]), (&json!("otto"), &json!(action)));
        assert_eq!((&fields["event"], &fields["source"]), (&json!(id), &json!("shop")));
    }
    assert!(!text.contains(OPERATOR) && !text.contains("guess-guess"), "{text}");
}
