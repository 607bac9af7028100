//! Migrations, over data that stands in the schema before them.

use super::open_in;
use crate::error::store_error;
use oncefold_core::queue::{Consumers, Prefetch, Publisher, QueueName};
use oncefold_core::store::{ApplyStore, ReadStore, RejectedDelivery, RejectedRequest, RejectedStore, Settled};
use oncefold_testkit::builders::{applies, at, batch, change, item, message, source};
use sqlx::migrate::Migrator;
use std::sync::Arc;
use std::time::Duration;

static ALL: Migrator = sqlx::migrate!("../../migrations/sqlite");

/// Everything that was there is there, and goes on.
#[tokio::test]
async fn what_was_written_under_the_first_schema_goes_on() {
    let dir = tempfile::TempDir::new().unwrap();
    let backend = open_in(&dir).await;
    let first = backend.writer.run_bare((), |conn, ()| {
        let first = ALL.iter().filter(|migration| migration.version == 1).cloned().collect();
        Box::pin(async move {
            let done = Migrator::with_migrations(first).run_direct(None, conn, false).await;
            done.map_err(|failed| store_error(sqlx::Error::Migrate(Box::new(failed))))
        })
    });
    first.await.unwrap();
    let of = |id: &str, version| {
        let message = message("shop", id, format!("body of {id}")).build();
        (message.clone(), item(&message, applies(vec![change("o1", version).build()])))
    };
    let ((old, old_item), (newer, newer_item), (waiting, _)) = (of("old", 2), of("newer", 3), of("waiting", 9));
    assert_eq!(backend.apply(batch(at(1), vec![old_item])).await.unwrap()[0].settled, Settled::Applied);
    backend.publish(Arc::new(waiting.clone())).await.unwrap();
    let (event, entity) = (backend.event(old.id).await.unwrap(), backend.entity("order", "o1").await.unwrap());
    assert!(event.is_some() && entity.is_some());
    assert_eq!(backend.pending_migrations().await.unwrap().len(), ALL.iter().count() - 1);

    backend.migrate().await.unwrap();
    assert_eq!(backend.pending_migrations().await.unwrap(), [""; 0]);
    assert_eq!(backend.event(old.id).await.unwrap(), event);
    assert_eq!(backend.entity("order", "o1").await.unwrap(), entity);
    let mut work =
        backend.subscribe(QueueName::Work(source("shop")), Prefetch { messages: 9, bytes: 999 }).await.unwrap();
    assert_eq!(work.receive(1, Duration::ZERO).await.unwrap()[0].message.as_ref(), Ok(&waiting));
    assert_eq!(backend.apply(batch(at(2), vec![newer_item])).await.unwrap()[0].settled, Settled::Applied);
    assert_eq!(backend.entity("order", "o1").await.unwrap().unwrap().event, newer.id);
    let rejected = RejectedDelivery {
        source: source("shop"),
        at: at(3),
        reason: "missing_header".to_owned(),
        detail: String::new(),
        request: RejectedRequest::default(),
        body: None,
    };
    backend.record_rejected(&[rejected]).await.unwrap();
    assert_eq!(backend.rejected(Some("shop"), None, 9).await.unwrap().len(), 1);
}
