use super::*;
use crate::fakes::{Behaviour, Fake, fake};
use bytes::Bytes;
use oncefold_core::{Digest, EventUuid, Facts, FactsJson, SourceName, Timestamp};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

fn message(event_id: &str, body: Bytes) -> Arc<Message> {
    Arc::new(Message {
        id: EventUuid::from_bytes([7; 16]),
        source: SourceName::parse("shop").unwrap(),
        event_id: event_id.to_owned(),
        event_type: None,
        received_at: Timestamp::from_micros(1),
        generation: 0,
        attempts: 0,
        digest: Digest::of(&body),
        facts: FactsJson::encode(&Facts::default()),
        body,
    })
}

fn started(store: &Arc<Fake>) -> Spooler {
    let (spooler, writer) = spooler(Arc::clone(store) as Arc<dyn SpoolStore>, Duration::from_secs(2));
    tokio::spawn(writer.run());
    spooler
}

/// Runs everything that can run.
async fn settle(until: impl Fn() -> bool) {
    tokio::time::timeout(Duration::from_secs(10), async {
        while !until() {
            tokio::task::yield_now().await;
        }
    })
    .await
    .expect("it happens in time");
}

/// One statement holds the first; everything that came meanwhile goes into the next.
async fn batches_behind_a_busy_store(bodies: Vec<Bytes>) -> Vec<usize> {
    let gate = Arc::new(Semaphore::new(0));
    let store = fake(Behaviour::Gate(Arc::clone(&gate)));
    let spooler = started(&store);
    let mut waiting = JoinSet::new();
    let keep = |body: Bytes| {
        let spooler = spooler.clone();
        async move { spooler.keep(message("e", body)).await }
    };
    waiting.spawn(keep(Bytes::new()));
    settle(|| store.entered() == 1).await;
    let count = bodies.len();
    bodies.into_iter().for_each(|body| drop(waiting.spawn(keep(body))));
    settle(|| spooler.waiting.max_capacity() - spooler.waiting.capacity() == count).await;
    gate.add_permits(100);
    while let Some(kept) = waiting.join_next().await {
        kept.unwrap().unwrap();
    }
    store.batches()
}

#[tokio::test]
async fn what_waits_is_written_in_one_statement() {
    assert_eq!(batches_behind_a_busy_store(vec![Bytes::from_static(b"{}"); 19]).await, [1, 19]);
}

#[tokio::test]
async fn a_statement_is_bounded_in_rows_and_bytes() {
    let rows = batches_behind_a_busy_store(vec![Bytes::new(); BATCH_MAX + 3]).await;
    assert_eq!(rows, [1, BATCH_MAX, 3]);
    let third = Bytes::from(vec![b'x'; BATCH_BYTES_MAX / 3]);
    assert_eq!(batches_behind_a_busy_store(vec![third; 5]).await, [1, 3, 2]);
    let huge = Bytes::from(vec![b'x'; BATCH_BYTES_MAX + 1]);
    assert_eq!(batches_behind_a_busy_store(vec![huge; 2]).await, [1, 1, 1]);
}

#[tokio::test]
async fn an_event_the_database_refuses_does_not_take_its_neighbours_with_it() {
    let store = fake(Behaviour::Refuse("bad"));
    let spooler = started(&store);
    let keep = |id: &'static str| spooler.keep(message(id, Bytes::new()));
    let (first, bad, last) = tokio::join!(keep("first"), keep("bad"), keep("last"));
    assert!(first.is_ok() && last.is_ok());
    assert!(matches!(bad, Err(NotSpooled::Store(e)) if matches!(*e, StoreError::Refused(_))));
    assert_eq!(store.taken().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_hangs_costs_the_deadline_and_a_full_queue_nothing() {
    let store = fake(Behaviour::Hang);
    let spooler = started(&store);
    let began = tokio::time::Instant::now();
    assert!(matches!(spooler.keep(message("e", Bytes::new())).await, Err(NotSpooled::TimedOut(_))));
    assert_eq!(began.elapsed(), Duration::from_secs(2));

    let mut waiting = JoinSet::new();
    for _ in 0..WAITING_MAX + 10 {
        let spooler = spooler.clone();
        waiting.spawn(async move { spooler.keep(message("e", Bytes::new())).await });
    }
    let results = waiting.join_all().await;
    assert!(results.iter().any(|kept| matches!(kept, Err(NotSpooled::Full))));
    assert!(results.iter().all(Result::is_err));
}

/// Whoever gave up is answered already: its event is not written after the fact when the store comes back.
#[tokio::test(start_paused = true)]
async fn deliveries_that_were_given_up_are_not_written() {
    let store = fake(Behaviour::Hang);
    let spooler = started(&store);
    let (first, second) = tokio::join!(spooler.keep(message("a", Bytes::new())), async {
        settle(|| store.entered() == 1).await;
        spooler.keep(message("b", Bytes::new())).await
    });
    assert!(first.is_err() && second.is_err());
    store.behaves(Behaviour::Take);
    spooler.keep(message("c", Bytes::new())).await.unwrap();
    let ids: Vec<_> = store.taken().iter().map(|m| m.event_id.clone()).collect();
    assert_eq!(ids, ["c"]);
}
