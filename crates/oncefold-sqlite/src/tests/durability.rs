//! Faults: a process that is killed, a full disk, another process on the file, operations that fail beside others.

use super::{Scratch, execute, open_in, url_in};
use crate::SqliteBackend;
use oncefold_core::message::Message;
use oncefold_core::queue::{Consumers, Prefetch, PublishError, Publisher, QueueName};
use oncefold_core::store::{
    ActStore, Actor, ApplyStore, DutyStore, Election, Probe, ReadStore, Refusal, Replay, Settled, StoreError,
};
use oncefold_testkit::builders::{applies, at, batch, change, ignored, item, message, source};
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use tokio::time::timeout;

const WIDE: Prefetch = Prefetch { messages: 10_000, bytes: 64 << 20 };
/// Tells the test binary that it is the process to be killed, and where its file is.
const VICTIM: &str = "ONCEFOLD_SQLITE_TEST_VICTIM";

fn big(event_id: &str) -> Arc<Message> {
    Arc::new(message("shop", event_id, vec![b'x'; 64 << 10]).build())
}

async fn waiting(backend: &SqliteBackend) -> BTreeSet<String> {
    let mut subscription = backend.subscribe(QueueName::Work(source("shop")), WIDE).await.unwrap();
    let mut found = BTreeSet::new();
    while let Ok(more) = timeout(Duration::from_millis(200), subscription.receive(1000, Duration::ZERO)).await {
        found.extend(more.unwrap().into_iter().map(|received| received.message.unwrap().event_id));
    }
    subscription.close().await;
    found
}

/// Not a test of its own: what the killed process runs. It says each event id once its publish is confirmed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[allow(clippy::print_stdout, reason = "how the victim speaks to the test")]
async fn victim_publishes_until_it_is_killed() {
    let Ok(url) = std::env::var(VICTIM) else { return };
    let backend = SqliteBackend::open(&url).await.unwrap();
    let publishers = (0..8).map(|publisher| {
        let backend = backend.clone();
        tokio::spawn(async move {
            for n in 0.. {
                let event_id = format!("{publisher}-{n}");
                backend.publish(Arc::new(message("shop", &event_id, "{}").build())).await.unwrap();
                println!("confirmed {event_id} of the victim");
            }
        })
    });
    for publisher in publishers.collect::<Vec<_>>() {
        let _ = publisher.await;
    }
}

#[tokio::test]
async fn what_was_confirmed_survives_a_kill() {
    let Scratch { backend, dir } = Scratch::open().await;
    backend.close().await;
    let mut victim = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "tests::durability::victim_publishes_until_it_is_killed", "--nocapture"])
        .env(VICTIM, url_in(&dir))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(victim.stdout.take().unwrap()).lines();
    let mut confirmed = BTreeSet::new();
    for line in lines.map_while(Result::ok) {
        // The last line may be cut, and libtest writes beside it: whole sentences only.
        let said = line.split_once("confirmed ").and_then(|(_, rest)| rest.strip_suffix(" of the victim"));
        confirmed.extend(said.map(str::to_owned));
        if confirmed.len() == 500 {
            victim.kill().unwrap();
        }
    }
    victim.wait().unwrap();
    let found = waiting(&open_in(&dir).await).await;
    assert!(confirmed.len() >= 500);
    assert_eq!(confirmed.difference(&found).collect::<Vec<_>>(), Vec::<&String>::new(), "confirmed, yet gone");
}

#[tokio::test]
async fn handles_dropped_without_a_close_lose_nothing() {
    let Scratch { backend, dir } = Scratch::open().await;
    let first = message("shop", "e1", "{}").build();
    backend.publish(Arc::new(first.clone())).await.unwrap();
    let applied = backend.apply(batch(at(1), vec![item(&first, applies(vec![change("o1", 1).build()]))])).await;
    assert_eq!(applied.unwrap()[0].settled, Settled::Applied);
    drop(backend);
    let again = open_in(&dir).await;
    assert!(again.entity("order", "o1").await.unwrap().is_some());
    assert_eq!(waiting(&again).await, BTreeSet::from(["e1".to_owned()]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_processes_write_one_file() {
    let Scratch { backend, dir } = Scratch::open().await;
    let other = open_in(&dir).await;
    let writers = [backend.clone(), other.clone()].into_iter().enumerate().map(|(writer, backend)| {
        tokio::spawn(async move {
            for n in 0..50 {
                let message = message("shop", &format!("{writer}-{n}"), "{}").build();
                backend.publish(Arc::new(message.clone())).await.unwrap();
                backend.apply(batch(at(1), vec![item(&message, ignored())])).await.unwrap();
            }
        })
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.await.unwrap();
    }
    assert_eq!(waiting(&backend).await.len(), 100);
    let first = message("shop", "e", "{}").build();
    backend.apply(batch(at(1), vec![item(&first, ignored())])).await.unwrap();
    let replay = Replay { id: first.id, actor: Actor("cli:me".into()), now: at(2) };
    assert_eq!(other.replay(&replay).await.unwrap(), Ok(()), "the one sees what the other wrote");
    assert!(matches!(backend.replay(&replay).await.unwrap(), Err(Refusal::WrongStatus(_))));
}

/// Half the filesystem's blocks are taken by a file of ours, so that freeing it brings space back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_confirms_nothing_and_is_overcome() {
    let disk = SmallDisk::mount();
    let backend = open_in(&disk.0).await;
    backend.migrate().await.unwrap();
    let ballast = disk.0.path().join("ballast");
    std::fs::write(&ballast, vec![0; 4 << 20]).unwrap();
    let (mut confirmed, mut refused) = (BTreeSet::new(), 0);
    for n in 0..200 {
        match backend.publish(big(&n.to_string())).await {
            Ok(()) => drop(confirmed.insert(n.to_string())),
            Err(PublishError::Away(text)) => {
                assert!(text.contains("full"), "{text}");
                refused += 1;
            }
            Err(other) => panic!("{other}"),
        }
    }
    assert!(!confirmed.is_empty() && refused > 50, "{} confirmed, {refused} refused", confirmed.len());
    let unapplied = item(&big("huge"), applies(vec![change("o1", 1).build()]));
    let failed = backend.apply(batch(at(1), vec![unapplied.clone()])).await;
    assert!(matches!(failed, Err(StoreError::Unavailable(_))), "{failed:?}");
    assert!(!backend.is_available(), "intake is not ready while nothing can be written");
    std::fs::remove_file(&ballast).unwrap();
    backend.ping().await.unwrap();
    assert!(backend.is_available());
    backend.publish(big("after")).await.unwrap();
    assert_eq!(backend.apply(batch(at(1), vec![unapplied])).await.unwrap()[0].settled, Settled::Applied);
    confirmed.insert("after".to_owned());
    assert_eq!(waiting(&backend).await, confirmed, "all that was confirmed, and nothing that was not");
    backend.close().await;
}

/// A filesystem of 8 MiB.
struct SmallDisk(TempDir);

impl SmallDisk {
    fn mount() -> Self {
        let dir = TempDir::new().unwrap();
        let mount = ["-t", "tmpfs", "-o", "size=8m", "tmpfs"];
        let mounted = Command::new("mount").args(mount).arg(dir.path()).output().expect("there is a `mount`");
        let said = String::from_utf8_lossy(&mounted.stderr);
        assert!(
            mounted.status.success(),
            "this test mounts a tmpfs, which needs root (scripts/test runs as root): {said}"
        );
        Self(dir)
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(self.0.path()).status();
    }
}

/// A trigger of the user's own on their entities: raises for one key.
async fn forbid(dir: &TempDir, how: &'static str) {
    let backend = open_in(dir).await;
    let statement: &'static str = match how {
        "ABORT" => {
            "CREATE TRIGGER forbid BEFORE INSERT ON entities WHEN new.key = 'bad'
                    BEGIN SELECT RAISE(ABORT, 'bad'); END"
        }
        _ => {
            "CREATE TRIGGER forbid BEFORE INSERT ON duties WHEN new.holder = 'bad'
              BEGIN SELECT RAISE(ROLLBACK, 'bad'); END"
        }
    };
    let conn = backend.writer.stop().await;
    sqlx::query(statement).execute(&mut conn.unwrap()).await.unwrap();
}

#[tokio::test]
async fn a_trigger_that_raises_is_a_failure_that_may_pass() {
    let Scratch { backend, dir } = Scratch::open().await;
    forbid(&dir, "ABORT").await;
    let of = |key| item(&message("shop", key, "{}").build(), applies(vec![change(key, 1).build()]));
    let failed = backend.apply(batch(at(1), vec![of("good"), of("bad")])).await;
    assert!(matches!(failed, Err(StoreError::Failed(_))), "{failed:?}");
    assert!(backend.entity("order", "good").await.unwrap().is_none(), "everything or nothing");
    backend.apply(batch(at(1), vec![of("good")])).await.unwrap();
}

/// Even where one operation ends the transaction of all, the others are done and answered.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operation_that_fails_does_not_hurt_the_others_of_its_group() {
    let Scratch { backend, dir } = Scratch::open().await;
    forbid(&dir, "ROLLBACK").await;
    let elect = |holder: String| {
        let duty: &'static str = if holder == "bad" { "bad" } else { "good" };
        let election = Election { duty, holder, now: at(1), lease_until: at(2) };
        let backend = backend.clone();
        async move { backend.elect(&election).await }
    };
    for round in 0..20 {
        let publish = backend.publish(Arc::new(message("shop", &round.to_string(), "{}").build()));
        let (before, bad, after, published) =
            tokio::join!(elect("me".into()), elect("bad".into()), elect("me".into()), publish);
        assert!(matches!(bad, Err(StoreError::Failed(_))), "{bad:?}");
        assert_eq!((before.unwrap(), after.unwrap()), (true, true));
        published.unwrap();
    }
    assert_eq!(waiting(&backend).await.len(), 20);
}

/// What an operation did before it failed is undone, and nothing else.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operation_that_fails_half_way_leaves_nothing() {
    let Scratch { backend, dir: _dir } = Scratch::open().await;
    let half_done = backend.writer.run::<(), ()>((), |conn, ()| {
        Box::pin(async move {
            let insert = "INSERT INTO duties VALUES ('half', 'me', 1)";
            sqlx::query(insert).execute(conn).await.map_err(crate::error::store_error)?;
            Err(StoreError::Refused("on purpose".to_owned()))
        })
    });
    let publish = backend.publish(Arc::new(message("shop", "e1", "{}").build()));
    let (failed, published) = tokio::join!(half_done, publish);
    assert!(matches!(failed, Err(StoreError::Refused(_))), "{failed:?}");
    published.unwrap();
    assert_eq!(waiting(&backend).await.len(), 1);
    let duties = sqlx::query_scalar("SELECT count(*) FROM duties").fetch_one(&backend.readers).await;
    assert_eq!(duties.unwrap_or(-1_i64), 0);
}

/// The same without a disk to fill: SQLite itself says that it is full.
#[tokio::test]
async fn a_full_file_is_no_operations_fault() {
    let Scratch { backend, dir: _dir } = Scratch::open().await;
    execute(&backend, "PRAGMA max_page_count = 1").await;
    let refused = loop {
        if let Err(refused) = backend.publish(big("e")).await {
            break refused;
        }
    };
    assert!(matches!(&refused, PublishError::Away(text) if text.contains("full")), "{refused:?}");
    let failed = backend.apply(batch(at(1), vec![item(&big("huge"), ignored())])).await;
    assert!(matches!(failed, Err(StoreError::Unavailable(_))), "{failed:?}");
    execute(&backend, "PRAGMA max_page_count = 1000000").await;
    backend.publish(big("after")).await.unwrap();
    assert!(waiting(&backend).await.contains("after"));
}

/// A constraint that the user put on their entities.
#[tokio::test]
async fn values_that_are_refused_are_not_told() {
    let Scratch { backend, dir: _dir } = Scratch::open().await;
    execute(&backend, "CREATE UNIQUE INDEX one_version ON entities (entity, version)").await;
    let of = |key| item(&message("shop", key, "{}").build(), applies(vec![change(key, 77).build()]));
    backend.apply(batch(at(1), vec![of("e1")])).await.unwrap();
    match backend.apply(batch(at(1), vec![of("secret")])).await {
        Err(StoreError::Refused(text)) => assert!(!text.contains("secret") && !text.contains("77"), "{text}"),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_schema_that_does_not_fit_is_named() {
    let dir = TempDir::new().unwrap();
    let backend = open_in(&dir).await;
    assert_eq!(
        backend.pending_migrations().await.unwrap()[0],
        "migration 0001 spine is not applied: run `oncefold migrate`"
    );
    let early = backend.publish(Arc::new(message("shop", "e1", "{}").build())).await;
    assert!(matches!(early, Err(PublishError::Away(text)) if text.contains("oncefold migrate")));
    backend.migrate().await.unwrap();
    backend.migrate().await.unwrap();
    assert_eq!(backend.pending_migrations().await.unwrap(), Vec::<String>::new());
    let mut conn = open_in(&dir).await.writer.stop().await.unwrap();
    let newer = "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time)
                 VALUES (9999, 'later', true, x'00', 0)";
    sqlx::query(newer).execute(&mut conn).await.unwrap();
    let ahead = backend.pending_migrations().await.unwrap();
    assert!(ahead.len() == 1 && ahead[0].contains("has migration 9999, which this binary does not know"), "{ahead:?}");
    assert!(matches!(backend.migrate().await, Err(StoreError::Unavailable(text)) if text.contains("9999")));
}

#[tokio::test]
async fn only_urls_of_files_are_opened() {
    for url in ["", "sqlite://", "sqlite::memory:", "sqlite://:memory:", "postgres://h/d", "sqlite://a.db?mode=ro"] {
        assert!(matches!(SqliteBackend::open(url).await, Err(StoreError::Unavailable(_))), "{url}");
    }
    let nowhere = SqliteBackend::open("sqlite:///nonexistent/oncefold.db").await;
    assert!(matches!(nowhere, Err(StoreError::Unavailable(_))), "{nowhere:?}");
}
