//! Connections on which callers did not wait for an answer.

use crate::database::Databases;
use oncefold_core::store::{ApplyStore as _, Probe as _, SpoolStore as _, StoreError};
use oncefold_postgres::PostgresStore;
use oncefold_testkit::builders::{at, batch, ignored, item, message};
use sqlx::postgres::PgConnection;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};

const PATIENCE: Duration = Duration::from_secs(30);

/// Sessions of ours that stand in a transaction.
async fn in_transaction(connection: &mut PgConnection) -> i64 {
    let sql = "SELECT count(*) FROM pg_stat_activity
               WHERE datname = current_database() AND application_name = 'oncefold' AND state = 'idle in transaction'";
    sqlx::query_scalar(sql).fetch_one(connection).await.unwrap()
}

async fn spooled(connection: &mut PgConnection) -> i64 {
    sqlx::query_scalar("SELECT count(*) FROM spool").fetch_one(connection).await.unwrap()
}

/// Who applies goes away between `BEGIN` and its answer: what is spooled next over that connection is there for
/// everybody as soon as the spool says so.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_spooled_after_a_begin_that_nobody_waited_for_is_committed() {
    let databases = Databases::start().await;
    let (proxy, url) = databases.proxied().await;
    let mut observer = databases.connection().await;
    let store = PostgresStore::connect(&url, 1).await.unwrap();
    let began = Instant::now();
    loop {
        // One connection, used and back in the pool.
        while store.ping().await.is_err() {
            assert!(began.elapsed() < PATIENCE, "no connection");
        }
        sleep(Duration::from_millis(100)).await;
        proxy.hold_answers();
        let one = store.clone();
        let event = batch(at(1), vec![item(&message("shop", "e1", "{}").build(), ignored())]);
        let applying = tokio::spawn(async move { one.apply(event).await });
        // Not so where the connection was not back in the pool yet.
        while in_transaction(&mut observer).await == 0 && !applying.is_finished() {
            sleep(Duration::from_millis(5)).await;
        }
        applying.abort();
        let ended = applying.await;
        proxy.restore();
        if ended.is_err_and(|ended| ended.is_cancelled()) {
            break;
        }
        assert!(began.elapsed() < PATIENCE, "no BEGIN comes to wait");
    }
    store.spool(&[Arc::new(message("shop", "e2", "{}").build())]).await.unwrap();
    assert_eq!(spooled(&mut observer).await, 1, "it was said to be kept");
}

/// The network forgot a connection, with more under way on it than it takes in by itself: its place is free again soon.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_the_network_forgot_gives_its_place_up() {
    let databases = Databases::start().await;
    let (proxy, url) = databases.proxied().await;
    let store = PostgresStore::connect(&url, 1).await.unwrap();
    let large = Arc::new(message("shop", "large", "x".repeat(32 << 20)).build());
    proxy.swallow_after(1 << 20);
    let given_up = timeout(Duration::from_secs(2), store.spool(&[large])).await;
    assert!(given_up.is_err(), "nothing answers");
    let began = Instant::now();
    while let Err(error) = store.spool(&[Arc::new(message("shop", "e1", "{}").build())]).await {
        assert!(matches!(error, StoreError::Unavailable(_)), "{error}");
        assert!(began.elapsed() < PATIENCE, "the place is taken still");
    }
    assert_eq!(spooled(&mut databases.connection().await).await, 1);
}
