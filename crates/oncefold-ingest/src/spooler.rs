//! The spool's writer: deliveries that the queue did not take are written in batches, one statement for all that wait,
//! so that an outage of the broker does not cost a transaction a delivery.

use crate::answer::NotSpooled;
use oncefold_core::Message;
use oncefold_core::store::{SpoolStore, StoreError};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

/// Deliveries that may wait for the writer; more are answered 503.
const WAITING_MAX: usize = 4_096;
/// Deliveries in one statement.
const BATCH_MAX: usize = 500;
/// Bytes of bodies in one statement; one delivery always fits.
const BATCH_BYTES_MAX: usize = 4 * 1024 * 1024;
/// How often a batch that lost against another transaction is written again.
const CONFLICTS_MAX: u32 = 3;

struct Waiting {
    message: Arc<Message>,
    kept: oneshot::Sender<Result<(), Arc<StoreError>>>,
}

/// Hands deliveries to the writer.
#[derive(Clone)]
pub(crate) struct Spooler {
    waiting: mpsc::Sender<Waiting>,
    deadline: Duration,
}

/// The other end: the task that writes.
pub(crate) struct SpoolWriter {
    store: Arc<dyn SpoolStore>,
    waiting: mpsc::Receiver<Waiting>,
    deadline: Duration,
}

/// Both ends. `deadline` bounds one delivery's wait and one statement.
pub(crate) fn spooler(store: Arc<dyn SpoolStore>, deadline: Duration) -> (Spooler, SpoolWriter) {
    let (sender, receiver) = mpsc::channel(WAITING_MAX);
    (Spooler { waiting: sender, deadline }, SpoolWriter { store, waiting: receiver, deadline })
}

impl Spooler {
    /// Durable when it returns `Ok`. After a timeout the event may still be written: harmless (P2).
    pub(crate) async fn keep(&self, message: Arc<Message>) -> Result<(), NotSpooled> {
        let (kept, answer) = oneshot::channel();
        self.waiting.try_send(Waiting { message, kept }).map_err(|e| match e {
            mpsc::error::TrySendError::Full(_) => NotSpooled::Full,
            mpsc::error::TrySendError::Closed(_) => NotSpooled::Ended,
        })?;
        match timeout(self.deadline, answer).await {
            Ok(Ok(result)) => result.map_err(NotSpooled::Store),
            Ok(Err(_)) => Err(NotSpooled::Ended),
            Err(_) => Err(NotSpooled::TimedOut(self.deadline)),
        }
    }
}

impl SpoolWriter {
    /// Writes until every [`Spooler`] is gone.
    pub(crate) async fn run(mut self) {
        let mut held = None;
        loop {
            let first = match held.take() {
                Some(first) => first,
                None => match self.waiting.recv().await {
                    Some(first) => first,
                    None => return,
                },
            };
            let (batch, next) = self.collect(first);
            held = next;
            self.write(batch).await;
        }
    }

    /// What waits now, within the bounds of one statement; and the one that did not fit.
    fn collect(&mut self, first: Waiting) -> (Vec<Waiting>, Option<Waiting>) {
        let mut bytes = first.message.body.len();
        let mut batch = vec![first];
        while batch.len() < BATCH_MAX {
            let Ok(next) = self.waiting.try_recv() else { break };
            bytes += next.message.body.len();
            if bytes > BATCH_BYTES_MAX {
                return (batch, Some(next));
            }
            batch.push(next);
        }
        (batch, None)
    }

    async fn write(&self, mut batch: Vec<Waiting>) {
        batch.retain(|waiting| !waiting.kept.is_closed());
        let messages: Vec<_> = batch.iter().map(|waiting| Arc::clone(&waiting.message)).collect();
        if messages.is_empty() {
            return;
        }
        match self.spool(&messages).await {
            Ok(()) => batch.into_iter().for_each(|waiting| drop(waiting.kept.send(Ok(())))),
            // One delivery that the database refuses must not take its neighbours with it.
            Err(StoreError::Refused(_)) if batch.len() > 1 => {
                for waiting in batch {
                    let result = self.spool(std::slice::from_ref(&waiting.message)).await;
                    drop(waiting.kept.send(result.map_err(Arc::new)));
                }
            }
            Err(error) => {
                let error = Arc::new(error);
                batch.into_iter().for_each(|waiting| drop(waiting.kept.send(Err(Arc::clone(&error)))));
            }
        }
    }

    async fn spool(&self, messages: &[Arc<Message>]) -> Result<(), StoreError> {
        let mut conflicts = 0;
        loop {
            let written = timeout(self.deadline, self.store.spool(messages)).await;
            match written.unwrap_or_else(|_| Err(StoreError::Unavailable("no answer in time".to_owned()))) {
                Err(StoreError::Conflict(_)) if conflicts < CONFLICTS_MAX => conflicts += 1,
                result => return result,
            }
        }
    }
}

#[cfg(test)]
#[path = "spooler_tests.rs"]
mod tests;
