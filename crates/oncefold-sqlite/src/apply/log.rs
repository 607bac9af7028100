use oncefold_core::event::{EventStatus, Setback};
use oncefold_core::id::{Digest, EventUuid, SourceName};
use oncefold_core::message::Message;
use oncefold_core::prepare::Plan;
use oncefold_core::reason::Failure;
use oncefold_core::store::{ApplyItem, Settled, variant_event_id};
use oncefold_core::time::Timestamp;
use std::collections::HashMap;
use std::sync::Arc;

/// An event of the log.
#[derive(Clone, Debug)]
pub(super) struct Event {
    pub(super) id: EventUuid,
    pub(super) source: SourceName,
    pub(super) event_id: String,
    pub(super) event_type: Option<String>,
    pub(super) status: EventStatus,
    pub(super) generation: u32,
    pub(super) digest: Digest,
    pub(super) received_at: Timestamp,
    pub(super) deliveries: u64,
    pub(super) attempts: u32,
    pub(super) next_attempt_at: Option<Timestamp>,
    pub(super) lease_until: Option<Timestamp>,
    pub(super) settled_at: Option<Timestamp>,
    pub(super) dead_at: Option<Timestamp>,
    pub(super) failure: Option<(String, String)>,
    pub(super) stored_at: Option<Timestamp>,
    /// Whether an attempt at it has failed before.
    pub(super) has_failed: bool,
}

/// An event of the log, and what the batch did to it.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) event: Event,
    /// The message that brought it, where the batch recorded it.
    pub(super) new: Option<Arc<Message>>,
    /// It stands otherwise than in the file.
    pub(super) changed: bool,
    /// The batch gave it a verdict that settles it.
    pub(super) settles: bool,
}

/// A verdict to be kept.
#[derive(Debug)]
pub(super) struct Attempt {
    pub(super) event: EventUuid,
    pub(super) attempt: u32,
    pub(super) generation: u32,
    pub(super) status: EventStatus,
    pub(super) failure: Option<(String, String)>,
}

/// What became of an item.
#[derive(Debug)]
pub(super) struct Claim {
    pub(super) settled: Settled,
    pub(super) variant: bool,
    /// Its event, where its changes go through the guard.
    pub(super) applied: Option<usize>,
}

/// The part of the log that a batch is about, as it will be written.
#[derive(Debug)]
pub(super) struct Log {
    pub(super) now: Timestamp,
    pub(super) entries: Vec<Entry>,
    pub(super) attempts: Vec<Attempt>,
    by_id: HashMap<EventUuid, usize>,
    by_name: HashMap<(SourceName, String), usize>,
}

impl Log {
    /// The log as far as it is known.
    pub(super) fn of(known: Vec<Event>, now: Timestamp) -> Self {
        let (entries, attempts) = (Vec::with_capacity(known.len()), Vec::new());
        let mut log = Self { now, entries, attempts, by_id: HashMap::new(), by_name: HashMap::new() };
        for event in known {
            if !log.by_id.contains_key(&event.id) {
                log.add(event, None);
            }
        }
        log
    }

    /// Claims the event of an item by the rules of [`oncefold_core::store::ApplyStore`].
    pub(super) fn take(&mut self, item: &ApplyItem) -> Claim {
        let message = &item.message;
        if message.generation > 0 {
            let claimed = self.by_id.get(&message.id).copied().filter(|at| {
                let event = &self.entries[*at].event;
                event.status == EventStatus::Queued && event.generation == message.generation
            });
            return claimed.map_or(Claim::without_changes(Settled::Late, false), |at| self.judge(at, item, false));
        }
        if let Some(own) = self.by_id.get(&message.id) {
            let variant = self.entries[*own].event.event_id != message.event_id;
            return Claim::without_changes(Settled::Late, variant);
        }
        let mut name = (message.source.clone(), message.event_id.clone());
        let variant = self.by_name.get(&name).is_some_and(|at| self.entries[*at].event.digest != message.digest);
        if variant {
            name.1 = variant_event_id(&message.event_id, &message.digest);
        }
        match self.by_name.get(&name).copied() {
            None => {
                let at = self.add(arrival(message, name.1, self.now), Some(message.clone()));
                self.judge(at, item, variant)
            }
            Some(at) => Claim::without_changes(self.repeat(at), variant),
        }
    }

    fn add(&mut self, event: Event, new: Option<Arc<Message>>) -> usize {
        let at = self.entries.len();
        self.by_id.insert(event.id, at);
        self.by_name.insert((event.source.clone(), event.event_id.clone()), at);
        self.entries.push(Entry { event, new, changed: false, settles: false });
        at
    }

    fn judge(&mut self, at: usize, item: &ApplyItem, variant: bool) -> Claim {
        let entry = &mut self.entries[at];
        entry.changed = true;
        let event = &mut entry.event;
        event.attempts += 1;
        event.event_type = item.prepared.event_type.clone().or_else(|| event.event_type.take());
        (event.lease_until, event.next_attempt_at, event.dead_at, event.failure) = (None, None, None, None);
        let (settled, failure) = match &item.prepared.plan {
            Plan::Apply(_) => (Settled::Applied, None),
            Plan::Ignore => (Settled::Ignored, None),
            Plan::Setback(Setback::Retry(failure, due)) => {
                event.next_attempt_at = Some(*due);
                (Settled::Retrying, Some(failure))
            }
            Plan::Setback(Setback::Dead(failure)) => {
                event.dead_at = Some(self.now);
                (Settled::Dead, Some(failure))
            }
        };
        event.status = match settled {
            Settled::Applied => EventStatus::Applied,
            Settled::Retrying => EventStatus::Retrying,
            Settled::Dead => EventStatus::Dead,
            _ => EventStatus::Ignored,
        };
        event.failure = failure.map(|Failure { reason, message }| (reason.as_str().to_owned(), message.clone()));
        if failure.is_none() {
            entry.settles = true;
            (event.settled_at, event.stored_at) = (Some(self.now), Some(self.now));
        }
        if failure.is_some() || event.has_failed {
            event.has_failed = true;
            self.attempts.push(Attempt {
                event: event.id,
                attempt: event.attempts,
                generation: event.generation,
                status: event.status,
                failure: event.failure.clone(),
            });
        }
        Claim { settled, variant, applied: (settled == Settled::Applied).then_some(at) }
    }

    /// Counts a repeat, and makes an event that has failed due now.
    fn repeat(&mut self, at: usize) -> Settled {
        let entry = &mut self.entries[at];
        entry.changed = true;
        let event = &mut entry.event;
        event.deliveries += 1;
        match event.status {
            EventStatus::Retrying => {
                event.next_attempt_at = Some(self.now);
                Settled::Woken
            }
            EventStatus::Dead => {
                event.status = EventStatus::Queued;
                event.generation += 1;
                (event.dead_at, event.failure, event.lease_until) = (None, None, Some(self.now));
                Settled::Woken
            }
            EventStatus::Queued | EventStatus::Applied | EventStatus::Ignored | EventStatus::Discarded => {
                Settled::Repeat
            }
        }
    }
}

impl Claim {
    const fn without_changes(settled: Settled, variant: bool) -> Self {
        Self { settled, variant, applied: None }
    }
}

fn arrival(message: &Message, event_id: String, now: Timestamp) -> Event {
    Event {
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
        lease_until: Some(now),
        settled_at: None,
        dead_at: None,
        failure: None,
        stored_at: None,
        has_failed: false,
    }
}
