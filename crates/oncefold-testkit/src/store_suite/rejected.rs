//! `RejectedStore`, and its part of `DutyStore::prune`.

use crate::builders::{at, source};
use bytes::Bytes;
use oncefold_core::limits::REJECTED_ROWS_MAX;
use oncefold_core::store::{Prune, RejectedDelivery, RejectedRequest, Store};
use std::sync::Arc;

fn delivery(name: &str, number: u64) -> RejectedDelivery {
    RejectedDelivery {
        source: source(name),
        at: at(number),
        reason: "no_matching_signature".to_owned(),
        detail: format!("delivery {number}"),
        request: RejectedRequest { method: "POST".to_owned(), ..RejectedRequest::default() },
        body: None,
    }
}

async fn details(store: &dyn Store, of: Option<&str>, before: Option<i64>, limit: u32) -> Vec<String> {
    store.rejected(of, before, limit).await.unwrap().into_iter().map(|record| record.delivery.detail).collect()
}

/// What was recorded "comes back as it was", newest first.
pub async fn rejected_deliveries_come_back_as_they_were(store: Arc<dyn Store>) {
    let request = RejectedRequest {
        trace_id: "4bf92f3577b34da6a3ce929d0e0e4736".to_owned(),
        method: "PUT".to_owned(),
        query: "a=%00&b".to_owned(),
        headers: vec![("x-a".to_owned(), "é \"1\"".to_owned()), ("x-a".to_owned(), String::new())],
        body_bytes: 3,
    };
    let whole = RejectedDelivery { request, body: Some(Bytes::from_static(b"\0\xFFx")), ..delivery("shop", 1) };
    let empty = RejectedDelivery { body: Some(Bytes::new()), ..delivery("bank", 2) };
    store.record_rejected(&[whole.clone(), empty.clone()]).await.unwrap();
    store.record_rejected(&[]).await.unwrap();
    store.record_rejected(&[delivery("shop", 3)]).await.unwrap();
    let found = store.rejected(None, None, 10).await.unwrap();
    let expected = [delivery("shop", 3), empty, whole];
    assert_eq!(found.iter().map(|record| &record.delivery).collect::<Vec<_>>(), expected.iter().collect::<Vec<_>>());
    assert!(found.windows(2).all(|pair| pair[0].sequence > pair[1].sequence));
}

/// Of one source where one is named, older than `before`, at most `limit`.
pub async fn pages_of_rejected_deliveries_neither_skip_nor_repeat(store: Arc<dyn Store>) {
    let deliveries: Vec<_> = (0..7).map(|n| delivery(if n % 2 == 0 { "shop" } else { "bank" }, n)).collect();
    store.record_rejected(&deliveries).await.unwrap();
    let named = |numbers: &[u64]| numbers.iter().map(|n| format!("delivery {n}")).collect::<Vec<_>>();
    assert_eq!(details(&*store, Some("shop"), None, 10).await, named(&[6, 4, 2, 0]));
    assert_eq!(details(&*store, Some("nobody"), None, 10).await, named(&[]));
    let first = store.rejected(Some("shop"), None, 3).await.unwrap();
    assert_eq!(details(&*store, Some("shop"), Some(first[2].sequence), 3).await, named(&[0]));
    assert_eq!(details(&*store, None, Some(first[0].sequence), 2).await, named(&[5, 4]));
}

/// None is kept for longer than bodies are; those of one call are bounded.
pub async fn old_rejected_deliveries_are_forgotten(store: Arc<dyn Store>) {
    let deliveries: Vec<_> = (0..25).map(|n| delivery(if n % 2 == 0 { "shop" } else { "bank" }, n)).collect();
    store.record_rejected(&deliveries).await.unwrap();
    let prune = Prune { now: at(100), bodies_before: at(22), ids_before: at(0), limit: 10 };
    let mut forgotten = vec![];
    for _ in 0..4 {
        forgotten.push(store.prune(&prune).await.unwrap().rejected);
    }
    assert_eq!(forgotten, [10, 10, 2, 0]);
    assert_eq!(details(&*store, None, None, 100).await, ["delivery 24", "delivery 23", "delivery 22"]);
}

/// The newest so many of each source are kept.
pub async fn the_rejected_log_is_bounded_for_each_source(store: Arc<dyn Store>) {
    store.record_rejected(&[delivery("bank", 0)]).await.unwrap();
    let most = u64::from(REJECTED_ROWS_MAX);
    for page in 0..6 {
        let deliveries: Vec<_> = (page * 200..(page + 1) * 200).map(|n| delivery("shop", n)).collect();
        store.record_rejected(&deliveries).await.unwrap();
    }
    let kept = details(&*store, Some("shop"), None, 5_000).await;
    assert_eq!(kept.len() as u64, most);
    assert_eq!((kept[0].as_str(), kept.last().map(String::as_str)), ("delivery 1199", Some("delivery 200")));
    assert_eq!(details(&*store, Some("bank"), None, 10).await, ["delivery 0"]);
    let many: Vec<_> = (0..most + 5).map(|n| delivery("bank", n)).collect();
    store.record_rejected(&many).await.unwrap();
    assert_eq!(details(&*store, Some("bank"), None, 5_000).await.last().map(String::as_str), Some("delivery 5"));
}
