//! Migrations, over data that stands in the schema before them.

use crate::database::Databases;
use oncefold_core::change::Verdict;
use oncefold_core::store::{ApplyStore as _, ReadStore as _, SpoolStore as _};
use oncefold_testkit::builders::{applies, at, batch, change, item, message};
use sqlx::migrate::Migrator;
use sqlx::postgres::PgConnection;
use std::sync::Arc;

static ALL: Migrator = sqlx::migrate!("../../migrations/postgres");

/// Entities at version 2, as a build wrote them under the first schema.
async fn first_schema(connection: &mut PgConnection, keys: &[&str]) {
    let first = ALL.iter().filter(|migration| migration.version == 1).cloned().collect();
    Migrator::with_migrations(first).run(&mut *connection).await.unwrap();
    for key in keys {
        let order_key = change(key, 2).build().order_key;
        sqlx::query(
            "INSERT INTO entities (entity, key, order_key, state, state_digest, version, deleted, event, updated_at_us)
             VALUES ('order', $1, $2, '{}', sha256('{}'), '2', false, gen_random_uuid(), 1)",
        )
        .bind(key)
        .bind(order_key.as_bytes())
        .execute(&mut *connection)
        .await
        .unwrap();
    }
}

/// What was there is there, is judged as ever, and has no verdict until it is moved.
#[tokio::test]
async fn entities_of_the_first_schema_go_on() {
    let databases = Databases::empty().await;
    let mut connection = databases.connection().await;
    first_schema(&mut connection, &["kept", "moved", "passed"]).await;
    let store = databases.store().await;
    store.spool(&[Arc::new(message("shop", "e0", "{}").build())]).await.unwrap();
    assert_eq!(store.pending_migrations().await.unwrap().len(), ALL.iter().count() - 1);

    store.migrate().await.unwrap();
    assert_eq!(store.pending_migrations().await.unwrap(), [""; 0]);
    assert_eq!(store.spool_depth().await.unwrap(), 1);
    let changes = vec![change("moved", 3).build(), change("passed", 1).build(), change("new", 1).build()];
    let outcomes = store.apply(batch(at(1), vec![item(&message("shop", "e1", "{}").build(), applies(changes))])).await;
    assert_eq!(outcomes.unwrap()[0].verdicts, [Verdict::Applied, Verdict::Stale, Verdict::Applied]);
    assert_eq!(store.entity("order", "kept").await.unwrap().unwrap().version, "2");
    let rows: Vec<(String, String, Option<String>)> =
        sqlx::query_as("SELECT key, version, verdict FROM entities ORDER BY key")
            .fetch_all(&mut connection)
            .await
            .unwrap();
    let row =
        |key: &str, version: &str, verdict: Option<&str>| (key.into(), version.into(), verdict.map(str::to_owned));
    let expected = [
        row("kept", "2", None),
        row("moved", "3", Some("applied")),
        row("new", "1", Some("applied")),
        row("passed", "2", None),
    ];
    assert_eq!(rows, expected);
}

/// A constraint that was added NOT VALID looks at no row that is there, and at every one that is written from then on.
#[tokio::test]
async fn a_verdict_is_constrained_though_old_rows_were_not_looked_at() {
    let databases = Databases::empty().await;
    let mut connection = databases.connection().await;
    first_schema(&mut connection, &["old"]).await;
    databases.store().await.migrate().await.unwrap();
    let looked_at = "SELECT convalidated FROM pg_constraint WHERE conname = 'entities_verdict'";
    assert!(!sqlx::query_scalar::<_, bool>(looked_at).fetch_one(&mut connection).await.unwrap());
    let written = [
        "UPDATE entities SET verdict = 'guess' WHERE key = 'old'",
        "INSERT INTO entities SELECT entity, 'new', order_key, state, state_digest, version, deleted, event, 1, 'guess'
         FROM entities WHERE key = 'old'",
    ];
    for sql in written {
        let refused = sqlx::query(sql).execute(&mut connection).await.unwrap_err();
        let constraint = refused.as_database_error().and_then(|report| report.constraint());
        assert_eq!(constraint, Some("entities_verdict"), "{sql}: {refused}");
        for verdict in ["applied", "noop", "tie"] {
            let may_be = sql.replace("guess", verdict).replace("'new'", &format!("'{verdict}'"));
            sqlx::query(sqlx::AssertSqlSafe(may_be)).execute(&mut connection).await.unwrap();
        }
    }
}
