//! Short ways to do and look, shared by the cases.

use crate::builders::batch;
use oncefold_core::id::EventUuid;
use oncefold_core::message::Message;
use oncefold_core::prepare::Prepared;
use oncefold_core::store::{ApplyBatch, ApplyItem, EventRecord, Outcome, Settled, Store, StoreError};
use oncefold_core::time::Timestamp;

/// Applies a batch as a worker does: once more where the store asks for it.
pub(super) async fn apply_batch(store: &dyn Store, batch: ApplyBatch) -> Vec<Outcome> {
    for _ in 0..100 {
        match store.apply(batch.clone()).await {
            Err(StoreError::Conflict(_)) => tokio::task::yield_now().await,
            answer => return answer.expect("the batch applies"),
        }
    }
    panic!("the store asked a hundred times to do it again");
}

/// Applies items under rules version 0.
pub(super) async fn apply(store: &dyn Store, now: Timestamp, items: Vec<ApplyItem>) -> Vec<Outcome> {
    apply_batch(store, batch(now, items)).await
}

/// Applies one event.
pub(super) async fn apply_one(store: &dyn Store, now: Timestamp, message: &Message, prepared: Prepared) -> Outcome {
    let mut outcomes = apply(store, now, vec![crate::builders::item(message, prepared)]).await;
    assert_eq!(outcomes.len(), 1, "one item, one outcome");
    outcomes.remove(0)
}

/// Where the events of these outcomes stand.
pub(super) fn settled(outcomes: &[Outcome]) -> Vec<Settled> {
    outcomes.iter().map(|o| o.settled).collect()
}

/// The recorded event, which must be there.
pub(super) async fn event(store: &dyn Store, id: EventUuid) -> EventRecord {
    store.event(id).await.expect("events can be read").unwrap_or_else(|| panic!("event {id} is not recorded"))
}
