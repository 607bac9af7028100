//! Locks, time limits, and rows that somebody damaged.

use crate::database::Databases;
use oncefold_core::event::EventStatus;
use oncefold_core::id::Digest;
use oncefold_core::reason::Reason;
use oncefold_core::store::{
    ActStore as _, Actor, ApplyStore as _, BODY_MISSING, ClaimDue, DutyStore as _, Prune, ReadStore as _, Replay, Rule,
    RulesStore as _, ScheduleStore as _, Settled, SpoolStore as _, StoreError,
};
use oncefold_testkit::builders::{START, applies, at, batch, change, dies, ignored, item, message, retries, source};
use sqlx::postgres::PgConnection;
use sqlx::{Connection as _, Executor as _, Row as _};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep};

const PATIENCE: Duration = Duration::from_secs(30);

/// Sessions of this database that wait for a lock.
async fn waiting(connection: &mut PgConnection) -> i64 {
    let sql = "SELECT count(*) FROM pg_stat_activity
               WHERE datname = current_database() AND wait_event_type = 'Lock'";
    sqlx::query_scalar(sql).fetch_one(connection).await.unwrap()
}

async fn until_waiting(connection: &mut PgConnection, sessions: i64, unless: impl Fn() -> bool) {
    let began = Instant::now();
    while waiting(connection).await != sessions {
        assert!(!unless(), "somebody did not wait");
        assert!(began.elapsed() < PATIENCE, "{sessions} sessions do not come to wait");
        sleep(Duration::from_millis(5)).await;
    }
}

/// Batches that come while a registration waits for one under way wait behind it: under load it would never end else.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_registration_is_not_overtaken_by_batches() {
    let databases = Databases::start().await;
    let store = databases.store().await;
    let rules = |epoch| {
        let fingerprint = Digest::of(b"rules");
        vec![Rule { source: source("shop"), projection: "order".into(), epoch, fingerprint }]
    };
    assert_eq!(store.register(&[], &rules(1), at(0)).await.unwrap(), 0);
    let of = |id: &str, key: &str, n| {
        batch(at(1), vec![item(&message("shop", id, "{}").build(), applies(vec![change(key, n).build()]))])
    };
    store.apply(of("e1", "held", 1)).await.unwrap();
    let (mut holder, mut observer) = (databases.connection().await, databases.connection().await);
    let mut held = holder.begin().await.unwrap();
    held.execute("SELECT FROM entities FOR UPDATE").await.unwrap();

    let (one, under_way) = (store.clone(), of("e2", "held", 2));
    let under_way = tokio::spawn(async move { one.apply(under_way).await });
    until_waiting(&mut observer, 1, || under_way.is_finished()).await;
    let two = store.clone();
    let registration = tokio::spawn(async move { two.register(&[], &rules(2), at(2)).await });
    until_waiting(&mut observer, 2, || registration.is_finished()).await;
    let (three, late) = (store.clone(), of("e3", "free", 1));
    let late = tokio::spawn(async move { three.apply(late).await });
    until_waiting(&mut observer, 3, || late.is_finished()).await;

    held.rollback().await.unwrap();
    assert_eq!(under_way.await.unwrap().unwrap()[0].settled, Settled::Applied);
    assert_eq!(registration.await.unwrap().unwrap(), 1);
    assert!(matches!(late.await.unwrap(), Err(StoreError::RulesBehind)), "it was made under the old rules");
    assert!(store.entity("order", "free").await.unwrap().is_none());
}

/// What a statement of each kind runs under, as triggers see it.
#[tokio::test]
async fn statements_have_a_time_limit_where_they_should() {
    let databases = Databases::empty().await;
    let mut connection = databases.connection().await;
    connection
        .execute(
            "CREATE TABLE seen (what text, statement text, lock text);
             CREATE FUNCTION note_ddl() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN
                 INSERT INTO public.seen
                 VALUES ('DDL', current_setting('statement_timeout'), current_setting('lock_timeout'));
             END $$;
             CREATE EVENT TRIGGER note_ddl ON ddl_command_start EXECUTE FUNCTION note_ddl();",
        )
        .await
        .unwrap();
    let store = databases.store().await;
    store.migrate().await.unwrap();
    connection
        .execute(
            "DROP EVENT TRIGGER note_ddl;
             CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                 INSERT INTO seen VALUES (TG_OP, current_setting('statement_timeout'), current_setting('lock_timeout'));
                 RETURN NULL;
             END $$;
             CREATE TRIGGER note AFTER INSERT OR DELETE ON events FOR EACH STATEMENT EXECUTE FUNCTION note();
             CREATE TRIGGER note AFTER DELETE ON bodies_default FOR EACH STATEMENT EXECUTE FUNCTION note();",
        )
        .await
        .unwrap();
    let old = |id: &str| batch(at(1), vec![item(&message("shop", id, "{}").build(), ignored())]);
    store.apply(old("e1")).await.unwrap();
    let now = START.plus(Duration::from_secs(400 * 86_400));
    let pruned = store.prune(&Prune { now, bodies_before: now, ids_before: now, limit: 10 }).await.unwrap();
    assert_eq!((pruned.bodies, pruned.events), (1, 1));
    for n in 0..12 {
        store.apply(old(&format!("later {n}"))).await.unwrap();
    }
    let sql = "SELECT DISTINCT what, statement, lock FROM seen ORDER BY what";
    let seen = sqlx::query(sql).fetch_all(&mut connection).await.unwrap();
    let seen: Vec<(String, String, String)> = seen.iter().map(|row| (row.get(0), row.get(1), row.get(2))).collect();
    let expected = [("DDL", "0", "0"), ("DELETE", "0", "20s"), ("INSERT", "30s", "20s")];
    assert_eq!(seen, expected.map(|(what, statement, lock)| (what.to_owned(), statement.to_owned(), lock.to_owned())));
}

/// `query_canceled`, `lock_not_available`: nothing counts as an attempt.
#[tokio::test]
async fn a_statement_that_took_too_long_says_that_the_database_is_away() {
    let databases = Databases::start().await;
    let store = databases.store().await;
    databases
        .connection()
        .await
        .execute(
            "CREATE FUNCTION raise() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                 RAISE EXCEPTION USING ERRCODE = NEW.event_id, MESSAGE = 'too long';
             END $$;
             CREATE TRIGGER raise BEFORE INSERT ON events FOR EACH ROW EXECUTE FUNCTION raise();",
        )
        .await
        .unwrap();
    for code in ["57014", "55P03"] {
        let failed = store.apply(batch(at(1), vec![item(&message("shop", code, "{}").build(), ignored())])).await;
        assert!(matches!(&failed, Err(StoreError::Hindered(text)) if text.contains(code)), "{failed:?}");
    }
}

/// Somebody deleted bytes that were held: the event says so, once, and nothing waits behind it.
#[tokio::test]
async fn an_event_without_its_bytes_is_dead_and_holds_nobody_up() {
    let databases = Databases::start().await;
    let store = databases.store().await;
    let [gone, put_back, whole] = ["gone", "put back", "whole"].map(|id| message("shop", id, "{}").build());
    let items = vec![item(&gone, retries(at(2))), item(&put_back, dies(Reason::BadKey)), item(&whole, retries(at(4)))];
    store.apply(batch(at(1), items)).await.unwrap();
    store.replay(&Replay { id: put_back.id, actor: Actor("me".into()), now: at(3) }).await.unwrap().unwrap();
    databases
        .connection()
        .await
        .execute("DELETE FROM held_bodies USING events WHERE events.id = held_bodies.id AND event_id <> 'whole'")
        .await
        .unwrap();
    let mut claimed = vec![];
    for _ in 0..3 {
        let claim = ClaimDue { now: at(10), lease_until: at(20), limit: 1 };
        claimed.extend(store.claim_due(claim).await.unwrap().into_iter().map(|m| (m.event_id, m.generation)));
    }
    assert_eq!(claimed, [("whole".to_owned(), 1)]);
    for event in [&gone, &put_back] {
        let record = store.event(event.id).await.unwrap().unwrap();
        assert_eq!((record.status, record.dead_at), (EventStatus::Dead, Some(at(10))), "{}", event.event_id);
        assert_eq!(record.error, Some(("apply.failed".to_owned(), BODY_MISSING.to_owned())));
        assert_eq!((record.attempts, record.next_attempt_at), (1, None));
    }
}

/// What waits in the spool has waited since it was received.
#[tokio::test]
async fn the_oldest_unapplied_may_still_be_spooled() {
    let databases = Databases::start().await;
    let store = databases.store().await;
    let m = |name, id, seconds| message(name, id, "{}").received_at(at(seconds)).build();
    let spooled = [m("shop", "e1", 5), m("shop", "e2", 3), m("bank", "e1", 6), m("zoo", "e1", 9)].map(Arc::new);
    store.spool(&spooled).await.unwrap();
    let items = [("shop", 4), ("zoo", 8), ("gym", 7)].map(|(name, s)| item(&m(name, "failing", s), retries(at(500))));
    store.apply(batch(at(10), items.to_vec())).await.unwrap();
    let mut oldest = store.gauges().await.unwrap().oldest_unapplied;
    oldest.sort();
    let expected = [("bank", 6), ("gym", 7), ("shop", 3), ("zoo", 8)].map(|(name, s)| (source(name), at(s)));
    assert_eq!(oldest, expected);
}
