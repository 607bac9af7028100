use super::{Entity, Event, FakeStore, State, change_record};
use async_trait::async_trait;
use oncefold_core::change::{Change, Verdict};
use oncefold_core::event::Setback;
use oncefold_core::fold::{Held, fold, judge};
use oncefold_core::prepare::{Plan, Prepared};
use oncefold_core::store::{
    ApplyBatch, ApplyItem, ApplyStore, AttemptRecord, EntityRecord, EventRecord, HistoryRecord, Outcome, Settled,
    StoreError, variant_event_id,
};
use oncefold_core::{EventStatus, EventUuid, Message, Timestamp};

#[async_trait]
impl ApplyStore for FakeStore {
    async fn apply(&self, batch: ApplyBatch) -> Result<Vec<Outcome>, StoreError> {
        let takes = self.call("apply_begun", |state| Ok(state.faults.applies_take)).unwrap_or_default();
        // A point where others run, as with any real store.
        tokio::time::sleep(takes).await;
        self.call("apply", |state| {
            state.fault_of(&batch)?;
            if batch.rules_version < state.rules_version {
                return Err(StoreError::RulesBehind);
            }
            Ok(state.apply(&batch))
        })
    }
}

/// What the claim of an item came to.
enum Claim {
    /// A verdict is due on this event.
    Ours(EventUuid),
    /// None is.
    Not(Settled),
}

impl State {
    fn fault_of(&mut self, batch: &ApplyBatch) -> Result<(), StoreError> {
        let faults = &mut self.faults;
        if faults.rules_behind {
            return Err(StoreError::RulesBehind);
        }
        if faults.applies_away {
            return Err(StoreError::Unavailable("applies are switched off".to_owned()));
        }
        if faults.conflicts > 0 {
            faults.conflicts -= 1;
            return Err(StoreError::Conflict("switched on".to_owned()));
        }
        for item in &batch.items {
            let id = item.message.event_id.as_str();
            if faults.unspeakable.contains(id) {
                return Err(StoreError::Refused("unspeakable".to_owned()));
            }
            if matches!(item.prepared.plan, Plan::Setback(_)) {
                continue;
            }
            assert!(!faults.panics.contains(id), "poison: {id}");
            if faults.hindered.contains(id) {
                return Err(StoreError::Hindered("switched on".to_owned()));
            }
            if faults.refused.contains(id) {
                return Err(StoreError::Refused("switched on".to_owned()));
            }
            if let Some(left) = faults.failed.get_mut(id).filter(|left| **left > 0) {
                // A batch of several is a try that nobody counts.
                *left -= u32::from(batch.items.len() == 1);
                return Err(StoreError::Failed("switched on".to_owned()));
            }
        }
        Ok(())
    }

    fn apply(&mut self, batch: &ApplyBatch) -> Vec<Outcome> {
        let mut outcomes = Vec::with_capacity(batch.items.len());
        let mut applied: Vec<(usize, EventUuid)> = Vec::new();
        for (at, item) in batch.items.iter().enumerate() {
            let (claim, variant) = self.claim(&item.message, batch.now);
            let settled = match claim {
                Claim::Not(settled) => settled,
                Claim::Ours(id) => {
                    let settled = self.record_verdict(id, &item.prepared, batch.now);
                    if settled == Settled::Applied {
                        applied.push((at, id));
                    }
                    settled
                }
            };
            outcomes.push(Outcome { settled, variant, verdicts: vec![] });
        }
        self.fold_in(batch, &applied, &mut outcomes);
        outcomes
    }

    fn claim(&mut self, message: &Message, now: Timestamp) -> (Claim, bool) {
        if message.generation > 0 {
            let event = self.events.get(&message.id);
            let ours = event.is_some_and(|event| {
                event.record.status == EventStatus::Queued && event.generation == message.generation
            });
            return (if ours { Claim::Ours(message.id) } else { Claim::Not(Settled::Late) }, false);
        }
        let known = self.ids.get(&(message.source.clone(), message.event_id.clone())).copied();
        match known.and_then(|id| self.events.get(&id)) {
            None => (self.insert(message, message.event_id.clone()), false),
            Some(event) if event.digest == message.digest => (self.repeat(event.record.id, message.id, now), false),
            Some(_) => {
                let event_id = variant_event_id(&message.event_id, &message.digest);
                match self.ids.get(&(message.source.clone(), event_id.clone())).copied() {
                    None => (self.insert(message, event_id), true),
                    Some(known) => (self.repeat(known, message.id, now), true),
                }
            }
        }
    }

    fn insert(&mut self, message: &Message, event_id: String) -> Claim {
        let record = EventRecord {
            id: message.id,
            source: message.source.clone(),
            event_id: event_id.clone(),
            event_type: message.event_type.clone(),
            status: EventStatus::Queued,
            received_at: message.received_at,
            settled_at: None,
            dead_at: None,
            deliveries: 1,
            attempts: 0,
            next_attempt_at: None,
            error: None,
            facts: message.facts.decode(),
            changes: vec![],
        };
        let event = Event {
            record,
            generation: 0,
            digest: message.digest,
            facts: message.facts.clone(),
            body: Some(message.body.clone()),
            lease_until: message.received_at,
            attempts: vec![],
        };
        self.ids.insert((message.source.clone(), event_id), message.id);
        self.events.insert(message.id, event);
        Claim::Ours(message.id)
    }

    fn repeat(&mut self, known: EventUuid, id: EventUuid, now: Timestamp) -> Claim {
        let Some(event) = self.events.get_mut(&known).filter(|_| known != id) else {
            return Claim::Not(Settled::Late);
        };
        event.record.deliveries += 1;
        Claim::Not(match event.record.status {
            EventStatus::Retrying => {
                event.record.next_attempt_at = Some(now);
                Settled::Woken
            }
            EventStatus::Dead => {
                event.put_back(now);
                Settled::Woken
            }
            _ => Settled::Repeat,
        })
    }

    fn record_verdict(&mut self, id: EventUuid, prepared: &Prepared, now: Timestamp) -> Settled {
        let Some(event) = self.events.get_mut(&id) else { return Settled::Late };
        let record = &mut event.record;
        record.attempts += 1;
        record.event_type = prepared.event_type.clone();
        (record.next_attempt_at, record.settled_at, record.dead_at, record.error) = (None, None, None, None);
        let settled = match &prepared.plan {
            Plan::Apply(_) => Settled::Applied,
            Plan::Ignore => Settled::Ignored,
            Plan::Setback(Setback::Retry(failure, at)) => {
                record.next_attempt_at = Some(*at);
                record.error = Some((failure.reason.to_string(), failure.message.clone()));
                Settled::Retrying
            }
            Plan::Setback(Setback::Dead(failure)) => {
                record.dead_at = Some(now);
                record.error = Some((failure.reason.to_string(), failure.message.clone()));
                Settled::Dead
            }
        };
        record.status = match settled {
            Settled::Applied => EventStatus::Applied,
            Settled::Ignored => EventStatus::Ignored,
            Settled::Retrying => EventStatus::Retrying,
            _ => EventStatus::Dead,
        };
        if record.status.is_settled() {
            record.settled_at = Some(now);
        }
        if record.error.is_some() || record.attempts > 1 {
            event.attempts.push(AttemptRecord {
                attempt: record.attempts,
                at: now,
                status: record.status,
                error: record.error.clone(),
            });
        }
        settled
    }

    fn fold_in(&mut self, batch: &ApplyBatch, applied: &[(usize, EventUuid)], outcomes: &mut [Outcome]) {
        let mut owners: Vec<(usize, EventUuid)> = vec![];
        let mut changes: Vec<&Change> = vec![];
        for (at, id) in applied {
            if let ApplyItem { prepared: Prepared { plan: Plan::Apply(theirs), .. }, .. } = &batch.items[*at] {
                if let Some(event) = self.events.get_mut(id) {
                    event.record.changes.clear();
                }
                owners.extend(theirs.iter().map(|_| (*at, *id)));
                changes.extend(theirs);
            }
        }
        let folded = fold(&changes);
        for (position, change) in changes.iter().enumerate() {
            let (at, id) = owners[position];
            let verdict = match folded.lost[position] {
                Some(verdict) => verdict,
                None => self.guard(change, id, batch.now),
            };
            outcomes[at].verdicts.push(verdict);
            self.keep(change, verdict, id, batch.now);
        }
    }

    fn guard(&mut self, change: &Change, event: EventUuid, now: Timestamp) -> Verdict {
        let at = (change.entity.to_string(), change.key.clone());
        let held = self.entities.get(&at).map(|entity| &entity.held);
        let verdict = judge(change, held);
        if held.is_none_or(|held| held.order_key < change.order_key) {
            let record = EntityRecord {
                entity: change.entity.clone(),
                key: change.key.clone(),
                state: change.state.clone(),
                version: change.version.clone(),
                deleted: change.is_delete(),
                event,
                updated_at: now,
            };
            self.entities.insert(at, Entity { held: Held::after(change), record });
        }
        verdict
    }

    fn keep(&mut self, change: &Change, verdict: Verdict, id: EventUuid, now: Timestamp) {
        let Some(event) = self.events.get_mut(&id) else { return };
        let at = (change.entity.to_string(), change.key.clone());
        event.record.changes.push(change_record(change, verdict));
        let history = HistoryRecord {
            event: id,
            source: event.record.source.clone(),
            event_type: event.record.event_type.clone(),
            version: change.version.clone(),
            verdict,
            at: now,
        };
        self.history.push((at, history));
    }
}
