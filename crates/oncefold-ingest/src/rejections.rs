//! The rejected log, written aside: what does not fit, or comes while the database is away, is dropped. Intake never waits.

use crate::delivery::Delivery;
use oncefold_core::limits::REJECTED_BODY_BYTES_MAX;
use oncefold_core::store::{RejectedDelivery, RejectedRequest, RejectedStore};
use oncefold_signature::Rejection;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};
use tracing::debug;

/// Deliveries that may wait to be written.
const WAITING_MAX: usize = 128;
/// The pause after each write: so often at most, and so many deliveries in one.
const WRITE_EVERY: Duration = Duration::from_millis(500);
/// Longest write.
const WRITE_MAX: Duration = Duration::from_secs(2);

/// Where rejected deliveries are put.
#[derive(Clone)]
pub(crate) struct RejectedLog(mpsc::Sender<RejectedDelivery>);

/// The other end: the task that writes.
pub(crate) struct RejectedWriter {
    store: Arc<dyn RejectedStore>,
    waiting: mpsc::Receiver<RejectedDelivery>,
}

/// Both ends.
pub(crate) fn rejected_log(store: Arc<dyn RejectedStore>) -> (RejectedLog, RejectedWriter) {
    let (sender, waiting) = mpsc::channel(WAITING_MAX);
    (RejectedLog(sender), RejectedWriter { store, waiting })
}

impl RejectedLog {
    fn offer(&self, delivery: RejectedDelivery) {
        // A full log loses this one: those that wait tell the same story.
        let _ = self.0.try_send(delivery);
    }
}

impl RejectedWriter {
    /// Writes until every [`RejectedLog`] is gone.
    pub(crate) async fn run(mut self) {
        let mut batch = vec![];
        while self.waiting.recv_many(&mut batch, WAITING_MAX).await > 0 {
            match timeout(WRITE_MAX, self.store.record_rejected(&batch)).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => debug!(target: "oncefold::ingest", %error, "rejected deliveries were not logged"),
                Err(_) => debug!(target: "oncefold::ingest", "rejected deliveries were not logged in time"),
            }
            batch.clear();
            sleep(WRITE_EVERY).await;
        }
    }
}

impl Delivery {
    /// Puts the delivery into the rejected log, within the budget of its source.
    pub(crate) fn log_rejection(&self, rejection: &Rejection) {
        let Some(log) = &self.tally.intake.rejected else { return };
        if !self.source.rejections.admits() {
            return;
        }
        let recorded = self.source.recorder.record(&self.parts.headers, self.query(), self.path_token.as_deref());
        let body = &self.body.bytes;
        log.offer(RejectedDelivery {
            source: self.source.settings.model.name.clone(),
            at: self.received_at,
            reason: rejection.reason.as_str().to_owned(),
            detail: rejection.detail.clone(),
            request: RejectedRequest {
                trace_id: self.tally.trace().to_owned(),
                method: self.parts.method.to_string(),
                query: recorded.query,
                headers: recorded.headers,
                body_bytes: body.len(),
            },
            body: (body.len() <= REJECTED_BODY_BYTES_MAX).then(|| body.clone()),
        });
    }
}
