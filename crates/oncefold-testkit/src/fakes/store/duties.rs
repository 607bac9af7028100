use super::{FakeStore, TrialMark};
use async_trait::async_trait;
use oncefold_core::limits::TRIAL_STARTS_MAX;
use oncefold_core::store::{
    ClaimDue, ClaimSpooled, DutyStore, Election, Gauges, Prune, Pruned, Rule, RuleConflict, RulesStore, ScheduleStore,
    SpoolStore, Spooled, StoreError, Trial, TrialStart, TrialStore, variant_event_id,
};
use oncefold_core::{EventStatus, EventUuid, Facts, Message, SourceName, Timestamp};
use std::collections::BTreeMap;
use std::sync::Arc;

#[async_trait]
impl ScheduleStore for FakeStore {
    async fn claim_due(&self, claim: ClaimDue) -> Result<Vec<Message>, StoreError> {
        self.call("claim_due", |state| {
            let mut due: Vec<(Timestamp, EventUuid)> = state
                .events
                .iter()
                .filter_map(|(id, event)| match event.record.status {
                    EventStatus::Retrying => event.record.next_attempt_at.map(|at| (at, *id)),
                    EventStatus::Queued => Some((event.lease_until, *id)),
                    _ => None,
                })
                .filter(|(at, _)| *at <= claim.now)
                .collect();
            due.sort_unstable();
            due.truncate(claim.limit as usize);
            let claimed = due.into_iter().filter_map(|(_, id)| {
                let event = state.events.get_mut(&id)?;
                if event.body.is_none() {
                    event.give_up(claim.now);
                    return None;
                }
                if event.record.status == EventStatus::Retrying {
                    event.put_back(claim.now);
                }
                event.lease_until = claim.lease_until;
                Some(event.message())
            });
            Ok(claimed.collect())
        })
    }

    async fn extend_leases(&self, sent: &[(EventUuid, u32)], lease_until: Timestamp) -> Result<(), StoreError> {
        self.call("extend_leases", |state| {
            for (id, generation) in sent {
                if let Some(event) = state.events.get_mut(id)
                    && event.record.status == EventStatus::Queued
                    && event.generation == *generation
                {
                    event.lease_until = event.lease_until.max(lease_until);
                }
            }
            Ok(())
        })
    }
}

#[async_trait]
impl TrialStore for FakeStore {
    async fn begin_trial(&self, trial: &Trial) -> Result<TrialStart, StoreError> {
        self.call("begin_trial", |state| {
            let known = state.events.get(&trial.id);
            if known.is_some_and(|e| e.record.status != EventStatus::Queued || e.generation != trial.generation) {
                return Ok(TrialStart::Settled);
            }
            let at = (trial.id, trial.generation);
            let starts = match state.trials.get(&at) {
                None => 1,
                Some(mark) if mark.holder == trial.holder => mark.starts,
                Some(mark) if mark.lease_until > trial.now => return Ok(TrialStart::Busy(mark.lease_until)),
                Some(mark) if mark.starts >= TRIAL_STARTS_MAX => return Ok(TrialStart::Interrupted),
                Some(mark) => mark.starts + 1,
            };
            let mark = TrialMark { holder: trial.holder.clone(), lease_until: trial.lease_until, starts };
            state.trials.insert(at, mark);
            Ok(TrialStart::Begun)
        })
    }

    async fn end_trial(&self, id: EventUuid, generation: u32) -> Result<(), StoreError> {
        self.call("end_trial", |state| {
            state.trials.remove(&(id, generation));
            Ok(())
        })
    }

    async fn is_recorded(&self, message: &Message) -> Result<bool, StoreError> {
        self.call("is_recorded", |state| {
            if let Some(event) = state.events.get(&message.id) {
                return Ok(event.record.status != EventStatus::Queued || event.generation != message.generation);
            }
            let variant = variant_event_id(&message.event_id, &message.digest);
            let known = [message.event_id.clone(), variant].into_iter().any(|event_id| {
                let id = state.ids.get(&(message.source.clone(), event_id));
                id.and_then(|id| state.events.get(id)).is_some_and(|event| event.digest == message.digest)
            });
            Ok(message.generation == 0 && known)
        })
    }
}

#[async_trait]
impl DutyStore for FakeStore {
    async fn elect(&self, election: &Election) -> Result<bool, StoreError> {
        self.call("elect", |state| {
            let held = state.duties.get(election.duty);
            let free = held.is_none_or(|(holder, until)| *holder == election.holder || *until <= election.now);
            if free {
                state.duties.insert(election.duty, (election.holder.clone(), election.lease_until));
            }
            Ok(free)
        })
    }

    async fn gauges(&self) -> Result<Gauges, StoreError> {
        self.call("gauges", |state| {
            let mut dead: BTreeMap<SourceName, u64> = BTreeMap::new();
            let mut oldest: BTreeMap<SourceName, Timestamp> = BTreeMap::new();
            let mut waits = |source: SourceName, since: Timestamp| {
                let first = oldest.entry(source).or_insert(since);
                *first = since.min(*first);
            };
            for (message, _) in state.spool.values() {
                waits(message.source.clone(), message.received_at);
            }
            for event in state.events.values() {
                let source = event.record.source.clone();
                match event.record.status {
                    EventStatus::Dead => *dead.entry(source).or_default() += 1,
                    EventStatus::Queued | EventStatus::Retrying => waits(source, event.record.received_at),
                    _ => {}
                }
            }
            let (dead_letters, oldest_unapplied) = (dead.into_iter().collect(), oldest.into_iter().collect());
            Ok(Gauges { dead_letters, oldest_unapplied })
        })
    }

    async fn prepare_days(&self, _now: Timestamp) -> Result<(), StoreError> {
        self.call("prepare_days", |_| Ok(()))
    }

    async fn prune(&self, prune: &Prune) -> Result<Pruned, StoreError> {
        self.call("prune", |state| {
            let mut pruned = Pruned::default();
            let settled = |event: &super::Event| event.record.settled_at.filter(|_| event.record.status.is_settled());
            let old: Vec<EventUuid> = state
                .events
                .iter()
                .filter(|(_, event)| settled(event).is_some_and(|at| at < prune.ids_before))
                .map(|(id, _)| *id)
                .take(prune.limit as usize)
                .collect();
            for id in old {
                if let Some(event) = state.events.remove(&id) {
                    state.ids.remove(&(event.record.source, event.record.event_id));
                    pruned.events += 1;
                }
            }
            for event in state.events.values_mut() {
                let is_old = settled(event).is_some_and(|at| at < prune.bodies_before);
                if is_old && event.body.is_some() && pruned.bodies < u64::from(prune.limit) {
                    event.body = None;
                    event.record.changes.clear();
                    event.record.facts = Facts::default();
                    let id = event.record.id;
                    let before = state.history.len();
                    state.history.retain(|(_, kept)| kept.event != id);
                    pruned.changes += (before - state.history.len()) as u64;
                    pruned.bodies += 1;
                }
            }
            let mut left = prune.limit;
            let before = state.rejected.len();
            state.rejected.retain(|record| {
                let is_forgotten = left > 0 && record.delivery.at < prune.bodies_before;
                left -= u32::from(is_forgotten);
                !is_forgotten
            });
            pruned.rejected = (before - state.rejected.len()) as u64;
            Ok(pruned)
        })
    }
}

#[async_trait]
impl RulesStore for FakeStore {
    async fn register(&self, sources: &[SourceName], rules: &[Rule], now: Timestamp) -> Result<i64, RuleConflict> {
        let mut conflict = None;
        let registered = self.call("register", |state| {
            for rule in rules {
                let Some(known) = state.rules.get(&(rule.source.clone(), rule.projection.clone())) else { continue };
                let (source_name, projection) = (rule.source.clone(), rule.projection.clone());
                if known.epoch > rule.epoch {
                    let (stored, configured) = (known.epoch, rule.epoch);
                    conflict = Some(RuleConflict::Behind { source_name, projection, stored, configured });
                    return Ok(0);
                }
                if known.epoch == rule.epoch && known.fingerprint != rule.fingerprint {
                    let next_epoch = known.epoch + 1;
                    conflict = Some(RuleConflict::Changed { source_name, projection, next_epoch });
                    return Ok(0);
                }
            }
            for source in sources {
                state.sources.entry(source.clone()).or_insert(now);
            }
            for rule in rules {
                let before = state.rules.insert((rule.source.clone(), rule.projection.clone()), rule.clone());
                state.rules_version += i64::from(before.is_some_and(|before| before.epoch < rule.epoch));
            }
            Ok(state.rules_version)
        });
        match conflict {
            Some(conflict) => Err(conflict),
            None => Ok(registered?),
        }
    }

    async fn known_sources(&self) -> Result<Vec<SourceName>, StoreError> {
        self.call("known_sources", |state| Ok(state.sources.keys().cloned().collect()))
    }
}

#[async_trait]
impl SpoolStore for FakeStore {
    async fn spool(&self, messages: &[Arc<Message>]) -> Result<(), StoreError> {
        self.call("spool", |state| {
            for message in messages {
                state.next_sequence += 1;
                let free_since = Timestamp::from_micros(i64::MIN);
                state.spool.insert(state.next_sequence, (Message::clone(message), free_since));
            }
            Ok(())
        })
    }

    async fn claim_spooled(&self, claim: ClaimSpooled) -> Result<Vec<Spooled>, StoreError> {
        self.call("claim_spooled", |state| {
            let free = state.spool.iter().filter(|(_, (_, lease_until))| *lease_until <= claim.now);
            let mut free: Vec<(Timestamp, i64)> = free.map(|(at, (_, lease_until))| (*lease_until, *at)).collect();
            free.sort_unstable();
            let mut claimed = Vec::new();
            for (_, sequence) in free.into_iter().take(claim.limit as usize) {
                if let Some((message, lease_until)) = state.spool.get_mut(&sequence) {
                    *lease_until = claim.lease_until;
                    claimed.push(Spooled { sequence, message: message.clone() });
                }
            }
            claimed.sort_unstable_by_key(|spooled| spooled.sequence);
            Ok(claimed)
        })
    }

    async fn remove_spooled(&self, sequences: &[i64]) -> Result<(), StoreError> {
        self.call("remove_spooled", |state| {
            state.spool.retain(|sequence, _| !sequences.contains(sequence));
            Ok(())
        })
    }

    async fn spool_depth(&self) -> Result<u64, StoreError> {
        self.call("spool_depth", |state| Ok(state.spool.len() as u64))
    }
}
