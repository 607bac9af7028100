//! What the ports do not show, or do not damage.

use super::{Scratch, execute};
use crate::SqliteBackend;
use oncefold_core::event::EventStatus;
use oncefold_core::queue::{Consumers, Prefetch, Publisher, QueueName, Settlement};
use oncefold_core::reason::Reason;
use oncefold_core::store::{
    ActStore, Actor, ApplyStore, BODY_MISSING, ClaimDue, Discard, DutyStore, ReadStore, Replay, ScheduleStore,
};
use oncefold_testkit::builders::{at, batch, dies, item, message, retries, source};
use sqlx::Row;
use std::collections::BTreeMap;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::sync::Arc;
use std::time::Duration;

/// Of each queue the first row tells how long it has waited; what is dead does not wait.
#[tokio::test]
async fn the_oldest_unapplied_may_still_be_in_the_queue() {
    let Scratch { backend, dir: _dir } = Scratch::open().await;
    let m = |name, id, seconds| message(name, id, "{}").received_at(at(seconds)).build();
    let dead = m("bank", "dead", 1);
    for waiting in [&dead, &m("shop", "e1", 3), &m("bank", "e1", 6), &m("shop", "e2", 5), &m("zoo", "e1", 9)] {
        backend.publish(Arc::new(waiting.clone())).await.unwrap();
    }
    let wide = Prefetch { messages: 10, bytes: 1 << 20 };
    let mut bank = backend.subscribe(QueueName::Work(source("bank")), wide).await.unwrap();
    let taken = bank.receive(1, Duration::ZERO).await.unwrap();
    bank.settle(vec![(taken[0].tag, Settlement::Reject)]).await.unwrap();
    let items = [("shop", 4), ("zoo", 8), ("gym", 7)].map(|(name, s)| item(&m(name, "failing", s), retries(at(500))));
    backend.apply(batch(at(10), items.to_vec())).await.unwrap();
    let mut oldest = backend.gauges().await.unwrap().oldest_unapplied;
    oldest.sort();
    let expected = [("bank", 6), ("gym", 7), ("shop", 3), ("zoo", 8)].map(|(name, s)| (source(name), at(s)));
    assert_eq!(oldest, expected);
}

/// Somebody deleted bytes that were held: the event says so, once, and nothing waits behind it.
#[tokio::test]
async fn an_event_without_its_bytes_is_dead_and_holds_nobody_up() {
    let Scratch { backend, dir: _dir } = Scratch::open().await;
    let [gone, put_back, whole] = ["gone", "put back", "whole"].map(|id| message("shop", id, "{}").build());
    let items = vec![item(&gone, retries(at(2))), item(&put_back, dies(Reason::BadKey)), item(&whole, retries(at(4)))];
    backend.apply(batch(at(1), items)).await.unwrap();
    let replay = Replay { id: put_back.id, actor: Actor("me".into()), now: at(3) };
    backend.replay(&replay).await.unwrap().unwrap();
    execute(&backend, "DELETE FROM held_bodies WHERE id IN (SELECT id FROM events WHERE event_id <> 'whole')").await;
    let mut claimed = vec![];
    for _ in 0..3 {
        let claim = ClaimDue { now: at(10), lease_until: at(20), limit: 1 };
        claimed.extend(backend.claim_due(claim).await.unwrap().into_iter().map(|m| (m.event_id, m.generation)));
    }
    assert_eq!(claimed, [("whole".to_owned(), 1)]);
    for event in [&gone, &put_back] {
        let record = backend.event(event.id).await.unwrap().unwrap();
        assert_eq!((record.status, record.dead_at), (EventStatus::Dead, Some(at(10))), "{}", event.event_id);
        assert_eq!(record.error, Some(("apply.failed".to_owned(), BODY_MISSING.to_owned())));
        assert_eq!((record.attempts, record.next_attempt_at), (1, None));
    }
    assert!(BODY_MISSING.contains("its body is missing from held_bodies"));
}

/// Each action leaves its row, each refusal none; texts are one line, as on PostgreSQL.
#[tokio::test]
async fn actions_are_audited() {
    let Scratch { backend, dir: _dir } = Scratch::open().await;
    let dead = message("shop", "e1", "{}").build();
    backend.apply(batch(at(0), vec![item(&dead, dies(Reason::BadKey))])).await.unwrap();
    let actor = Actor("cli:a\0nn\u{1b}[2J".into());
    let reason = "a test\0 order\nof \u{7f} mine".into();
    let discard = Discard { id: dead.id, actor: actor.clone(), reason, now: at(1) };
    backend.discard(&discard).await.unwrap().unwrap();
    backend.discard(&discard).await.unwrap().unwrap_err();
    backend.replay(&Replay { id: dead.id, actor, now: at(2) }).await.unwrap().unwrap();
    let rows = sqlx::query("SELECT at_us, actor, action, target, detail FROM audit ORDER BY id")
        .fetch_all(&backend.readers)
        .await
        .unwrap();
    let rows: Vec<(i64, String, String, String, Option<String>)> =
        rows.iter().map(|row| (row.get(0), row.get(1), row.get(2), row.get(3), row.get(4))).collect();
    let row = |seconds, action: &str, detail: Option<&str>| {
        let actor = "cli:a\u{FFFD}nn\u{FFFD}[2J".to_owned();
        (at(seconds).as_micros(), actor, action.to_owned(), dead.id.to_string(), detail.map(str::to_owned))
    };
    let reason = "a test\u{FFFD} order of \u{FFFD} mine";
    assert_eq!(rows, [row(1, "event.discard", Some(reason)), row(2, "event.replay", None)]);
}

/// The file, its log and the log's index, also where the URL names a link to a file that is not there yet.
#[tokio::test]
async fn what_is_made_is_its_owners_alone() {
    let dir = tempfile::TempDir::new().unwrap();
    let [link, made] = ["link.db", "made.db"].map(|name| dir.path().join(name));
    symlink(&made, &link).unwrap();
    let mut open = vec![];
    for path in [link, dir.path().join("plain.db")] {
        let backend = SqliteBackend::open(&format!("sqlite://{}", path.display())).await.unwrap();
        backend.migrate().await.unwrap();
        backend.publish(Arc::new(message("shop", "e1", "{}").build())).await.unwrap();
        open.push(backend);
    }
    let modes: BTreeMap<String, u32> = std::fs::read_dir(dir.path())
        .unwrap()
        .map(|entry| entry.unwrap())
        .filter(|entry| entry.file_type().unwrap().is_file())
        .map(|entry| (entry.file_name().into_string().unwrap(), entry.metadata().unwrap().permissions().mode() & 0o777))
        .collect();
    let names = ["made.db", "made.db-shm", "made.db-wal", "plain.db", "plain.db-shm", "plain.db-wal"];
    assert_eq!(modes, names.map(|name| (name.to_owned(), 0o600)).into());
}
