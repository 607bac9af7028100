//! An event's row, and what verdicts and deliveries make of it.

use oncefold_core::event::{EventStatus, Setback};
use oncefold_core::id::{Digest, EventUuid, SourceName};
use oncefold_core::message::Message;
use oncefold_core::prepare::{Plan, Prepared};
use oncefold_core::reason::Failure;
use oncefold_core::store::Settled;
use oncefold_core::time::Timestamp;

/// An event as a transaction leaves it.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub id: EventUuid,
    pub source: SourceName,
    pub event_id: String,
    pub event_type: Option<String>,
    pub status: EventStatus,
    pub generation: u32,
    pub digest: Digest,
    pub received_at: Timestamp,
    pub deliveries: u64,
    pub attempts: u32,
    pub next_attempt_at: Option<Timestamp>,
    pub lease_until: Option<Timestamp>,
    pub settled_at: Option<Timestamp>,
    pub dead_at: Option<Timestamp>,
    pub error: Option<(String, String)>,
    pub stored_at: Option<Timestamp>,
}

impl Row {
    /// A first delivery, kept as `event_id` with its plan's verdict.
    pub fn recorded(message: &Message, event_id: String, prepared: &Prepared, now: Timestamp) -> (Self, Settled) {
        let mut row = Self {
            id: message.id,
            source: message.source.clone(),
            event_id,
            event_type: None,
            status: EventStatus::Queued,
            generation: 0,
            digest: message.digest,
            received_at: message.received_at,
            deliveries: 1,
            attempts: 0,
            next_attempt_at: None,
            lease_until: None,
            settled_at: None,
            dead_at: None,
            error: None,
            stored_at: None,
        };
        let settled = row.take_verdict(prepared, now);
        (row, settled)
    }

    /// A worker's verdict.
    pub fn take_verdict(&mut self, prepared: &Prepared, now: Timestamp) -> Settled {
        self.attempts += 1;
        if prepared.event_type.is_some() {
            self.event_type.clone_from(&prepared.event_type);
        }
        match &prepared.plan {
            Plan::Apply(_) => self.settle(EventStatus::Applied, now),
            Plan::Ignore => self.settle(EventStatus::Ignored, now),
            Plan::Setback(Setback::Retry(failure, at)) => {
                self.move_to(EventStatus::Retrying);
                self.next_attempt_at = Some(*at);
                self.error = Some(error(failure));
            }
            Plan::Setback(Setback::Dead(failure)) => {
                self.move_to(EventStatus::Dead);
                self.dead_at = Some(now);
                self.error = Some(error(failure));
            }
        }
        match self.status {
            EventStatus::Applied => Settled::Applied,
            EventStatus::Ignored => Settled::Ignored,
            EventStatus::Retrying => Settled::Retrying,
            _ => Settled::Dead,
        }
    }

    /// A delivery from outside under `id`, of the same bytes.
    pub fn take_delivery(&mut self, id: EventUuid, now: Timestamp) -> Settled {
        if self.id == id {
            return Settled::Late;
        }
        self.deliveries += 1;
        match self.status {
            EventStatus::Retrying => {
                self.next_attempt_at = Some(now);
                Settled::Woken
            }
            EventStatus::Dead => {
                self.move_to(EventStatus::Queued);
                self.generation += 1;
                self.lease_until = Some(now);
                Settled::Woken
            }
            _ => Settled::Repeat,
        }
    }

    fn settle(&mut self, status: EventStatus, now: Timestamp) {
        self.move_to(status);
        self.settled_at = Some(now);
        self.stored_at = Some(now);
    }

    /// Drops what belonged to the status before.
    fn move_to(&mut self, status: EventStatus) {
        self.status = status;
        self.next_attempt_at = None;
        self.lease_until = None;
        self.settled_at = None;
        self.dead_at = None;
        self.error = None;
        self.stored_at = None;
    }
}

fn error(failure: &Failure) -> (String, String) {
    (failure.reason.as_str().to_owned(), failure.message.clone())
}
