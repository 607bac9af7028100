//! What only PostgreSQL has: migrations by a command, partitions, SQLSTATEs, a server that goes away.

use crate::database::Databases;
use oncefold_core::prepare::{Plan, Prepared};
use oncefold_core::store::{
    ActStore as _, ApplyStore as _, DutyStore as _, Probe as _, Prune, ReadStore as _, Settled, SpoolStore as _,
    StoreError,
};
use oncefold_core::time::Timestamp;
use oncefold_postgres::PostgresStore;
use oncefold_testkit::builders::{START, applies, at, batch, change, ignored, item, message};
use sqlx::{Connection as _, Executor as _, Row as _};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

const DAY: Duration = Duration::from_secs(86_400);

async fn tables(databases: &Databases, prefix: &str) -> Vec<String> {
    let mut connection = databases.connection().await;
    let rows = sqlx::query("SELECT relname::text FROM pg_class WHERE relkind = 'r' AND relname LIKE $1 ORDER BY 1")
        .bind(format!("{prefix}%"))
        .fetch_all(&mut connection)
        .await
        .unwrap();
    rows.iter().map(|row| row.get(0)).collect()
}

#[tokio::test]
async fn a_schema_behind_the_binary_is_named_and_mended() {
    let databases = Databases::empty().await;
    let store = databases.store().await;
    let pending = store.pending_migrations().await.unwrap();
    assert!(pending[0].contains("0001 spine") && pending[0].contains("oncefold migrate"), "{pending:?}");
    let failed = store.ping().await.unwrap_err();
    assert!(matches!(&failed, StoreError::Unavailable(text) if text.contains("42P01")), "{failed}");
    let batch = batch(at(0), vec![item(&message("shop", "e1", "{}").build(), ignored())]);
    assert!(matches!(store.apply(batch).await, Err(StoreError::Hindered(_))));
    let (one, two) = tokio::join!(store.migrate(), store.migrate());
    assert_eq!((one.is_ok(), two.is_ok()), (true, true), "two at once");
    assert_eq!(store.pending_migrations().await.unwrap(), [""; 0]);
    store.ping().await.unwrap();
    store.migrate().await.unwrap();
}

#[tokio::test]
async fn a_schema_ahead_of_the_binary_is_named() {
    let databases = Databases::start().await;
    let mut connection = databases.connection().await;
    connection
        .execute(
            "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time)
             VALUES (9999, 'future', true, '\\x00', 0)",
        )
        .await
        .unwrap();
    let store = databases.store().await;
    let pending = store.pending_migrations().await.unwrap();
    assert!(pending.len() == 1 && pending[0].contains("9999") && pending[0].contains("newer binary"), "{pending:?}");
    let refused = store.migrate().await.unwrap_err().to_string();
    assert!(refused.contains("9999"), "{refused}");
    connection.execute("UPDATE _sqlx_migrations SET version = 1, checksum = '\\x01' WHERE version = 1").await.unwrap();
    connection.execute("DELETE FROM _sqlx_migrations WHERE version = 9999").await.unwrap();
    let pending = store.pending_migrations().await.unwrap();
    assert!(pending.len() == 1 && pending[0].contains("0001") && pending[0].contains("another form"), "{pending:?}");
}

#[tokio::test]
async fn a_database_that_is_away_is_noticed_soon() {
    // Nothing listens on port 1.
    let url = "postgres://somebody:sesame@127.0.0.1:1/x";
    let began = Instant::now();
    let away = PostgresStore::connect(url, 2).await.unwrap_err();
    assert!(began.elapsed() < Duration::from_secs(5));
    assert!(matches!(away, StoreError::Unavailable(_)), "{away}");
    let lazy = PostgresStore::connect_lazy(url, 2).unwrap();
    assert!(matches!(lazy.ping().await, Err(StoreError::Unavailable(_))));
    for text in ["postgres://somebody:sesame@[", "mysql://somebody:sesame@host/x", "sesame"] {
        let bad = PostgresStore::connect_lazy(text, 2).unwrap_err();
        assert!(!bad.to_string().contains("sesame") && !format!("{bad:?}").contains("sesame"), "{bad}");
    }
    assert!(!format!("{lazy:?}").contains("sesame"), "{lazy:?}");
}

#[tokio::test]
async fn connections_that_were_ended_are_replaced() {
    let databases = Databases::start().await;
    let store = databases.store().await;
    store.ping().await.unwrap();
    let mut connection = databases.connection().await;
    connection
        .execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
             WHERE datname = current_database() AND pid <> pg_backend_pid()",
        )
        .await
        .unwrap();
    let outcome = store.apply(batch(at(0), vec![item(&message("shop", "e1", "{}").build(), ignored())])).await;
    assert_eq!(outcome.unwrap()[0].settled, Settled::Ignored);
}

/// A server that only reads, as a standby does: away, with the reason, and no attempt is counted. No connection to it is
/// used twice: where the next one leads to may be written.
#[tokio::test]
async fn a_server_that_only_reads_is_away() {
    let databases = Databases::start().await;
    let store = databases.store().await;
    store.ping().await.unwrap();
    let mut connection = databases.connection().await;
    let name: String = sqlx::query_scalar("SELECT current_database()::text").fetch_one(&mut connection).await.unwrap();
    let mut set = async |setting: &str| {
        let sql = format!("ALTER DATABASE {name} {setting}");
        connection.execute(sqlx::AssertSqlSafe(sql)).await.unwrap();
    };
    set("SET default_transaction_read_only = on").await;
    store.close().await;
    let store = databases.store().await;
    let says_so = |failed: StoreError| {
        assert!(matches!(&failed, StoreError::Unavailable(text) if text.contains("read-only")), "{failed:?}");
    };
    let of = |id: &str| message("shop", id, "{}").build();
    for _ in 0..2 {
        says_so(store.ping().await.unwrap_err());
        says_so(store.spool_depth().await.unwrap_err());
        says_so(store.spool(&[Arc::new(of("spooled"))]).await.unwrap_err());
        says_so(store.apply(batch(at(0), vec![item(&of("applied"), ignored())])).await.unwrap_err());
    }
    set("RESET default_transaction_read_only").await;
    let applied = of("applied");
    store.apply(batch(at(1), vec![item(&applied, ignored())])).await.unwrap();
    store.spool(&[Arc::new(of("spooled"))]).await.unwrap();
    store.ping().await.unwrap();
    assert_eq!(store.spool_depth().await.unwrap(), 1);
    assert_eq!(store.event(applied.id).await.unwrap().unwrap().attempts, 1);
}

/// Values that the database refuses say so, and do not say themselves.
#[tokio::test]
async fn refusals_hold_no_values() {
    let databases = Databases::start().await;
    let store = databases.store().await;
    let with = |state: &str| applies(vec![change("sesame", 1).state(state).build()]);
    let nul = Prepared { event_type: Some("sesame\0".into()), plan: Plan::Ignore };
    for prepared in [with("{sesame"), with("\"sesame\\u0000\""), nul] {
        let first = message("shop", "sesame", "sesame").build();
        let refused = store.apply(batch(at(0), vec![item(&first, prepared)])).await.unwrap_err();
        assert!(matches!(refused, StoreError::Refused(_)), "{refused:?}");
        let shown = format!("{refused} {refused:?}");
        assert!(shown.contains("22") && !shown.contains("sesame"), "{shown}");
        assert_eq!(store.event(first.id).await.unwrap(), None, "nothing is committed");
    }
}

#[tokio::test]
async fn bodies_and_changes_stand_in_their_day() {
    let databases = Databases::start().await;
    let store = databases.store().await;
    store.prepare_days(START).await.unwrap();
    let expected = |prefix: &str| {
        ["20260102", "20260103", "20260104", "20260105", "default"].map(|day| format!("{prefix}_{day}")).to_vec()
    };
    assert_eq!(tables(&databases, "bodies\\_").await, expected("bodies"));
    assert_eq!(tables(&databases, "changes\\_").await, expected("changes"));
    let midnight = Timestamp::parse("2026-01-03T00:00:00Z").unwrap();
    for (n, now) in [midnight.minus(Duration::from_micros(1)), midnight, START.plus(DAY * 9)].into_iter().enumerate() {
        let message = message("shop", &format!("e{n}"), "{}").received_at(now).build();
        store.apply(batch(now, vec![item(&message, applies(vec![change("o1", 1).build()]))])).await.unwrap();
    }
    let mut connection = databases.connection().await;
    for table in ["bodies", "changes"] {
        let sql = format!("SELECT tableoid::regclass::text FROM {table} ORDER BY 1");
        let stand = sqlx::query(sqlx::AssertSqlSafe(sql)).fetch_all(&mut connection).await.unwrap();
        let stand: Vec<String> = stand.iter().map(|row| row.get(0)).collect();
        assert_eq!(stand, ["20260102", "20260103", "default"].map(|day| format!("{table}_{day}")));
    }
    let (now, bodies_before) = (START.plus(DAY * 9), midnight);
    let prune = Prune { now, bodies_before, ids_before: START, limit: 10 };
    assert_eq!(store.prune(&prune).await.unwrap().bodies, 1);
    assert_eq!(tables(&databases, "bodies\\_").await, expected("bodies")[1..]);
    assert_eq!(tables(&databases, "changes\\_").await, expected("changes")[1..]);
}

/// Each action leaves its row, each refusal none; texts are one line, as on SQLite.
#[tokio::test]
async fn actions_are_audited() {
    use oncefold_core::store::{Actor, Discard, Replay};
    let databases = Databases::start().await;
    let store = databases.store().await;
    let dead = message("shop", "e1", "{}").build();
    let plan = oncefold_testkit::builders::dies(oncefold_core::reason::Reason::BadKey);
    store.apply(batch(at(0), vec![item(&dead, plan)])).await.unwrap();
    let actor = Actor("cli:a\0nn\u{1b}[2J".into());
    let reason = "a test\0 order\nof \u{7f} mine".into();
    let discard = Discard { id: dead.id, actor: actor.clone(), reason, now: at(1) };
    store.discard(&discard).await.unwrap().unwrap();
    store.discard(&discard).await.unwrap().unwrap_err();
    store.replay(&Replay { id: dead.id, actor, now: at(2) }).await.unwrap().unwrap();
    let mut connection = databases.connection().await;
    let rows = sqlx::query("SELECT at_us, actor, action, target, detail FROM audit ORDER BY id")
        .fetch_all(&mut connection)
        .await
        .unwrap();
    let rows: Vec<(i64, String, String, String, Option<String>)> =
        rows.iter().map(|row| (row.get(0), row.get(1), row.get(2), row.get(3), row.get(4))).collect();
    let row = |at: Timestamp, action: &str, detail: Option<&str>| {
        let actor = "cli:a\u{FFFD}nn\u{FFFD}[2J".to_owned();
        (at.as_micros(), actor, action.to_owned(), dead.id.to_string(), detail.map(str::to_owned))
    };
    let reason = "a test\u{FFFD} order of \u{FFFD} mine";
    let expected = [row(at(1), "event.discard", Some(reason)), row(at(2), "event.replay", None)];
    assert_eq!(rows, expected);
    connection.close().await.unwrap();
}
