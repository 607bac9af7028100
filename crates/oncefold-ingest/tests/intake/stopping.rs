//! Stopping: softly, at once, and when a part of the role ends by itself.

use crate::fakes::Behaviour;
use crate::harness::{DEADLINE, Intake, Setup, eventually, post, source};
use oncefold_ingest::IngestError;
use oncefold_signature::Scheme;
use std::sync::Arc;
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::time::timeout;

const BODY: &[u8] = br#"{"id":"evt_1","type":"order.paid"}"#;

async fn with_one_in_hand(name: &str) -> (Intake, crate::harness::Client, Arc<Semaphore>) {
    let gate = Arc::new(Semaphore::new(0));
    let mut setup = Setup::of(vec![source(name, &Scheme::None, "")]);
    setup.queue = Behaviour::Gate(gate.clone());
    setup.settings.publish_timeout = DEADLINE;
    let intake = setup.start().await;
    let mut client = intake.connect().await;
    client.send(&post(&format!("/in/{name}"), "", BODY)).await;
    eventually("it is in hand", || intake.queue.entered() == 1).await;
    (intake, client, gate)
}

async fn ended(intake: Intake) -> Result<(), IngestError> {
    timeout(DEADLINE, intake.running).await.expect("it ends in time").expect("it does not panic")
}

#[tokio::test]
async fn a_soft_stop_closes_the_door_finishes_what_is_in_hand_and_ends() {
    let (intake, mut client, gate) = with_one_in_hand("s-soft").await;
    let mut idle = intake.connect().await;
    intake.soft.cancel();
    assert!(idle.is_at_end().await, "an idle connection is closed");
    timeout(DEADLINE, async {
        while TcpStream::connect(intake.address).await.is_ok() {
            tokio::task::yield_now().await;
        }
    })
    .await
    .expect("connections are refused");
    assert!(!intake.running.is_finished());
    gate.add_permits(1);
    let answer = client.answer().await.expect("an answer");
    assert_eq!((answer.status, answer.headers["connection"].as_str()), (200, "close"));
    assert!(client.is_at_end().await);
    assert_eq!(intake.queue.taken().len(), 1);
    ended(intake).await.unwrap();
}

#[tokio::test]
async fn a_soft_stop_finishes_what_a_client_that_went_away_left_in_hand() {
    let (intake, client, gate) = with_one_in_hand("s-left").await;
    drop(client);
    intake.soft.cancel();
    gate.add_permits(1);
    let queue = intake.queue.clone();
    ended(intake).await.unwrap();
    assert_eq!(queue.taken().len(), 1);
}

#[tokio::test]
async fn a_hard_stop_drops_everything() {
    let (intake, mut client, gate) = with_one_in_hand("s-hard").await;
    intake.soft.cancel();
    intake.hard.cancel();
    assert!(client.answer().await.is_none(), "no answer for what was not kept");
    let queue = intake.queue.clone();
    ended(intake).await.unwrap();
    gate.add_permits(1);
    assert!(queue.taken().is_empty());
}

#[tokio::test]
async fn a_spool_writer_that_dies_ends_the_role_with_an_error() {
    let mut setup = Setup::of(vec![source("s-dead", &Scheme::None, "")]);
    (setup.queue, setup.spool) = (Behaviour::Fail, Some(Behaviour::Panic));
    let intake = setup.start().await;
    let mut client = intake.connect().await;
    client.send(&post("/in/s-dead", "", BODY)).await;
    assert!(client.answer().await.is_none_or(|answer| answer.status == 503));
    assert!(matches!(ended(intake).await, Err(IngestError::TaskEnded(_))));
}
