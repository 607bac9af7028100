//! Short ways to do and look, shared by the cases.

use crate::builders::{at, batch, item};
use oncefold_core::id::EventUuid;
use oncefold_core::message::Message;
use oncefold_core::prepare::Prepared;
use oncefold_core::store::{
    Actor, ApplyBatch, ApplyItem, ClaimDue, Discard, EntityRecord, EventFilter, EventRecord, Outcome, Refusal, Replay,
    Settled, Store, StoreError,
};
use oncefold_core::time::Timestamp;

/// Applies a batch as a worker does: once more where the store asks for it.
pub(super) async fn apply_batch(store: &dyn Store, batch: ApplyBatch) -> Vec<Outcome> {
    for _ in 0..1_000 {
        match store.apply(batch.clone()).await {
            Err(StoreError::Conflict(_)) => tokio::task::yield_now().await,
            answer => return answer.expect("the batch applies"),
        }
    }
    panic!("the store asked a thousand times to do it again");
}

/// Applies items under rules version 0.
pub(super) async fn apply(store: &dyn Store, now: Timestamp, items: Vec<ApplyItem>) -> Vec<Outcome> {
    apply_batch(store, batch(now, items)).await
}

/// Applies one event.
pub(super) async fn apply_one(store: &dyn Store, now: Timestamp, message: &Message, prepared: Prepared) -> Outcome {
    let mut outcomes = apply(store, now, vec![item(message, prepared)]).await;
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

/// The entity, which must be there.
pub(super) async fn entity(store: &dyn Store, entity: &str, key: &str) -> EntityRecord {
    store
        .entity(entity, key)
        .await
        .expect("entities can be read")
        .unwrap_or_else(|| panic!("there is no {entity} {key}"))
}

/// Every event, newest first.
pub(super) async fn all_events(store: &dyn Store) -> Vec<EventRecord> {
    store.events(&EventFilter { limit: 500, ..EventFilter::default() }).await.expect("events can be read")
}

/// Takes everything that is due; leased for a minute.
pub(super) async fn claim_due(store: &dyn Store, now: Timestamp) -> Vec<Message> {
    let lease_until = now.plus(std::time::Duration::from_secs(60));
    store.claim_due(ClaimDue { now, lease_until, limit: 100 }).await.expect("due events can be taken")
}

/// Takes the one event that is due.
pub(super) async fn claim_one(store: &dyn Store, now: Timestamp) -> Message {
    let mut due = claim_due(store, now).await;
    assert_eq!(due.len(), 1, "one event is due");
    due.remove(0)
}

/// The operator of the tests.
pub(super) fn actor() -> Actor {
    Actor("ops".to_owned())
}

/// Puts an event back.
pub(super) async fn replay(store: &dyn Store, id: EventUuid, now: Timestamp) -> Result<(), Refusal> {
    store.replay(&Replay { id, actor: actor(), now }).await.expect("the store answers")
}

/// Gives a dead letter up.
pub(super) async fn discard(store: &dyn Store, id: EventUuid, now: Timestamp) -> Result<(), Refusal> {
    let discard = Discard { id, actor: actor(), reason: "a test order".to_owned(), now };
    store.discard(&discard).await.expect("the store answers")
}

/// The body that is kept of an event.
pub(super) async fn body(store: &dyn Store, id: EventUuid) -> Option<Vec<u8>> {
    store.body(id).await.expect("bodies can be read").map(|stored| stored.body.to_vec())
}

/// An hour after the tests' world began: later than anything that is due in the cases.
pub(super) fn later() -> Timestamp {
    at(3_600)
}
