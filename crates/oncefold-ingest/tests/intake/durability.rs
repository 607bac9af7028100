//! Durable before 2xx: the queue, else the spool, else 503.

use crate::fakes::Behaviour;
use crate::harness::{DEADLINE, Setup, eventually, post, source};
use oncefold_ingest::Readiness;
use oncefold_signature::Scheme;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;

const BODY: &[u8] = br#"{"id":"evt_1","type":"order.paid"}"#;

fn setup(name: &str, queue: Behaviour, spool: Option<Behaviour>) -> Setup {
    let mut setup = Setup::of(vec![source(name, &Scheme::None, "")]);
    (setup.queue, setup.spool) = (queue, spool);
    setup.settings.publish_timeout = Duration::from_millis(100);
    setup.settings.spool_timeout = Duration::from_millis(100);
    setup
}

#[tokio::test]
async fn a_queue_that_fails_or_does_not_answer_sends_the_event_to_the_spool() {
    for (name, queue) in
        [("d-fails", Behaviour::Fail), ("d-hangs", Behaviour::Hang), ("d-panics", Behaviour::Refuse("evt_1"))]
    {
        let intake = setup(name, queue, Some(Behaviour::Take)).start().await;
        assert_eq!(intake.ask(&post(&format!("/in/{name}"), "", BODY)).await.status, 200);
        let spooled = intake.spool.taken();
        assert_eq!((spooled.len(), spooled[0].body.as_ref()), (1, BODY));
        assert_eq!(intake.counted(name, "spooled"), 1);
        assert_eq!(intake.metrics.spooled.get(), 1);
        assert!(intake.queue.taken().is_empty());
    }
}

#[tokio::test]
async fn a_queue_that_confirms_leaves_the_spool_alone() {
    let intake = setup("d-queue", Behaviour::Take, Some(Behaviour::Take)).start().await;
    assert_eq!(intake.ask(&post("/in/d-queue", "", BODY)).await.status, 200);
    assert_eq!((intake.queue.entered(), intake.spool.entered()), (1, 0));
    assert_eq!(intake.metrics.spooled.get(), 0);
}

#[tokio::test]
async fn without_a_place_the_answer_is_503_and_the_next_delivery_may_land() {
    for (name, queue, spool) in [
        ("d-none", Behaviour::Fail, None),
        ("d-both-hang", Behaviour::Hang, Some(Behaviour::Hang)),
        ("d-both-fail", Behaviour::Fail, Some(Behaviour::Fail)),
    ] {
        let intake = setup(name, queue, spool).start().await;
        let request = post(&format!("/in/{name}"), "", BODY);
        assert_eq!(intake.ask(&request).await.status, 503);
        assert_eq!(intake.counted(name, "unavailable"), 1);
        intake.queue.behaves(Behaviour::Take);
        assert_eq!(intake.ask(&request).await.status, 200);
    }
}

#[tokio::test]
async fn no_answer_leaves_before_the_queue_has_confirmed() {
    let gate = Arc::new(Semaphore::new(0));
    let mut setup = setup("d-gate", Behaviour::Gate(gate.clone()), None);
    setup.settings.publish_timeout = DEADLINE;
    let intake = setup.start().await;
    let mut client = intake.connect().await;
    client.send(&post("/in/d-gate", "", BODY)).await;
    eventually("it waits for the confirm", || intake.queue.entered() == 1).await;
    let early = tokio::time::timeout(Duration::from_millis(100), client.answer()).await;
    assert!(early.is_err(), "answered before the confirm");
    gate.add_permits(1);
    assert_eq!(client.answer().await.unwrap().status, 200);
}

#[tokio::test]
async fn a_queue_that_panics_is_answered_503_and_the_role_goes_on() {
    let intake = setup("d-panic", Behaviour::Panic, None).start().await;
    let answer = intake.ask(&post("/in/d-panic", "", BODY)).await;
    assert_eq!(answer.status, 503);
    assert!(answer.headers.contains_key("retry-after"));
    assert_eq!(intake.counted("d-panic", "unavailable"), 1);
    intake.queue.behaves(Behaviour::Take);
    assert_eq!(intake.ask(&post("/in/d-panic", "", BODY)).await.status, 200);
}

#[tokio::test]
async fn a_client_that_goes_away_after_its_body_still_has_its_event_kept() {
    let gate = Arc::new(Semaphore::new(0));
    let mut setup = setup("d-away", Behaviour::Gate(gate.clone()), None);
    setup.settings.publish_timeout = DEADLINE;
    let intake = setup.start().await;
    let mut client = intake.connect().await;
    client.send(&post("/in/d-away", "", BODY)).await;
    eventually("it waits for the confirm", || intake.queue.entered() == 1).await;
    drop(client);
    gate.add_permits(1);
    eventually("it is kept", || intake.queue.taken().len() == 1).await;
    eventually("it is counted", || intake.counted("d-away", "accepted") == 1).await;
}

#[tokio::test]
async fn readiness_follows_queue_and_spool() {
    for (queue, spool, expected) in [
        (Behaviour::Take, Some(Behaviour::Fail), Readiness::Queue),
        (Behaviour::Fail, Some(Behaviour::Take), Readiness::Spool),
        (Behaviour::Fail, Some(Behaviour::Fail), Readiness::Nothing),
        (Behaviour::Fail, None, Readiness::Nothing),
    ] {
        let intake = setup("d-ready", queue, spool).start().await;
        let readiness = intake.health.check().await;
        assert_eq!(readiness, expected);
        assert_eq!(readiness.is_ready(), expected != Readiness::Nothing);
    }
}
