//! What waits for the writer. A test has one thread here: the writer runs only where the test awaits it.

use super::Scratch;
use crate::SqliteBackend;
use futures_util::FutureExt;
use oncefold_core::queue::{PublishError, Publisher, QueueAdmin};
use oncefold_core::store::Probe;
use oncefold_testkit::builders::{message, source};
use std::pin::pin;
use std::sync::Arc;

async fn publish(backend: SqliteBackend, event_id: String, bytes: usize) -> Result<(), PublishError> {
    backend.publish(Arc::new(message("shop", &event_id, vec![b'x'; bytes]).build())).await
}

async fn depth(backend: &SqliteBackend) -> u64 {
    backend.depths(&[source("shop")]).await.unwrap()[0].1
}

#[tokio::test]
async fn what_nobody_waits_for_any_more_is_not_kept() {
    let Scratch { backend, dir: _dir } = Scratch::open().await;
    for n in 0..10 {
        assert!(publish(backend.clone(), n.to_string(), 10).now_or_never().is_none());
    }
    publish(backend.clone(), "kept".into(), 10).await.unwrap();
    assert_eq!(depth(&backend).await, 1);
}

#[tokio::test]
async fn bytes_that_wait_are_bounded() {
    let Scratch { backend, dir: _dir } = Scratch::open().await;
    let mut waiting = vec![];
    let mut refused = 0;
    for n in 0..80 {
        let mut sent = Box::pin(publish(backend.clone(), n.to_string(), 1 << 20));
        match sent.as_mut().now_or_never() {
            None => waiting.push(sent),
            Some(Err(PublishError::Away(text))) => {
                assert!(text.contains("wait"), "{text}");
                refused += 1;
            }
            Some(other) => panic!("{other:?}"),
        }
    }
    assert!((60..=64).contains(&waiting.len()) && refused == 80 - waiting.len(), "{} wait", waiting.len());
    let confirmed = waiting.len() as u64;
    for sent in waiting {
        sent.await.unwrap();
    }
    assert_eq!(depth(&backend).await, confirmed);
    publish(backend.clone(), "after".into(), 1 << 20).await.unwrap();
}

/// A message larger than all that may wait goes alone; what was abandoned gives its room back.
#[tokio::test]
async fn one_message_always_fits() {
    let Scratch { backend, dir: _dir } = Scratch::open().await;
    {
        let huge = pin!(publish(backend.clone(), "abandoned".into(), 65 << 20));
        assert!(huge.now_or_never().is_none());
    }
    backend.ping().await.unwrap();
    let mut huge = Box::pin(publish(backend.clone(), "huge".into(), 65 << 20));
    assert!(huge.as_mut().now_or_never().is_none());
    assert!(matches!(publish(backend.clone(), "small".into(), 1).await, Err(PublishError::Away(_))));
    huge.await.unwrap();
    assert_eq!(depth(&backend).await, 1);
}
