//! A store in memory, as faithful as the suite asks, with switches to fail. One file per port group.

mod apply;
mod duties;
mod people;
mod read;
mod rejected;

use oncefold_core::change::Change;
use oncefold_core::fold::Held;
use oncefold_core::store::{
    Answer, AttemptRecord, BODY_MISSING, ChangeRecord, EntityRecord, EventRecord, HistoryRecord, Probe, RejectedRecord,
    Rule, StoreError,
};
use oncefold_core::{Digest, EventStatus, EventUuid, FactsJson, Message, Reason, SourceName, Timestamp};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard};

/// A fault of one call.
#[derive(Debug)]
pub enum Fault {
    /// It fails and does nothing.
    Before(StoreError),
    /// It is done, and the answer is lost.
    After(StoreError),
}

/// Decides what becomes of a call of the named method.
pub type FaultHook = Box<dyn FnMut(&'static str) -> Option<Fault> + Send>;

/// What fails. Event ids name events whose changes cannot be written; recording that they cannot always works, but
/// for `unspeakable`.
#[derive(Default)]
pub struct Faults {
    /// Every call answers `Unavailable`.
    pub away: bool,
    /// How long `apply` takes.
    pub applies_take: std::time::Duration,
    /// So many applies answer `Conflict`.
    pub conflicts: u32,
    /// `apply` answers `Unavailable`, though `ping` works.
    pub applies_away: bool,
    /// Batches with these answer `Hindered`.
    pub hindered: BTreeSet<String>,
    /// Batches with these answer `Refused`.
    pub refused: BTreeSet<String>,
    /// Batches with these answer `Failed`, so many times.
    pub failed: BTreeMap<String, u32>,
    /// Batches with these answer `Refused`, even where they only record a setback.
    pub unspeakable: BTreeSet<String>,
    /// Applying these panics.
    pub panics: BTreeSet<String>,
    /// `apply` answers `RulesBehind`.
    pub rules_behind: bool,
    /// Asked before all others.
    pub hook: Option<FaultHook>,
}

#[derive(Clone)]
struct Event {
    record: EventRecord,
    generation: u32,
    digest: Digest,
    facts: FactsJson,
    body: Option<bytes::Bytes>,
    /// While it is queued: when somebody sends it again.
    lease_until: Timestamp,
    attempts: Vec<AttemptRecord>,
}

impl Event {
    /// Sent again without its bytes, which are gone, it can be nothing but dead.
    fn give_up(&mut self, now: Timestamp) {
        self.record.status = EventStatus::Dead;
        self.record.next_attempt_at = None;
        self.record.dead_at = Some(now);
        self.record.error = Some((Reason::ApplyFailed.to_string(), BODY_MISSING.to_owned()));
    }

    /// Back on the queue, due now.
    fn put_back(&mut self, now: Timestamp) {
        self.record.status = EventStatus::Queued;
        self.generation += 1;
        self.lease_until = now;
        self.record.next_attempt_at = None;
        self.record.settled_at = None;
        self.record.dead_at = None;
        self.record.error = None;
    }

    fn message(&self) -> Message {
        Message {
            id: self.record.id,
            source: self.record.source.clone(),
            event_id: self.record.event_id.clone(),
            event_type: self.record.event_type.clone(),
            received_at: self.record.received_at,
            generation: self.generation,
            attempts: self.record.attempts,
            digest: self.digest,
            facts: self.facts.clone(),
            body: self.body.clone().unwrap_or_default(),
        }
    }
}

#[derive(Clone)]
struct Entity {
    held: Held,
    record: EntityRecord,
}

struct TrialMark {
    holder: String,
    lease_until: Timestamp,
    starts: u32,
}

#[derive(Clone)]
struct KeptAnswer {
    request: Digest,
    since: Timestamp,
    answer: Option<Answer>,
}

#[derive(Default)]
struct State {
    faults: Faults,
    calls: BTreeMap<&'static str, u64>,
    events: BTreeMap<EventUuid, Event>,
    ids: HashMap<(SourceName, String), EventUuid>,
    entities: BTreeMap<(String, String), Entity>,
    history: Vec<((String, String), HistoryRecord)>,
    sources: BTreeMap<SourceName, Timestamp>,
    rules: BTreeMap<(SourceName, String), Rule>,
    rules_version: i64,
    trials: HashMap<(EventUuid, u32), TrialMark>,
    duties: HashMap<&'static str, (String, Timestamp)>,
    answers: HashMap<(String, String), KeptAnswer>,
    spool: BTreeMap<i64, (Message, Timestamp)>,
    rejected: Vec<RejectedRecord>,
    next_sequence: i64,
    audit: Vec<String>,
}

/// A store in memory. Clones share it.
#[derive(Clone, Default)]
pub struct FakeStore(Arc<Mutex<State>>);

impl FakeStore {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Switches faults.
    pub fn with_faults<T>(&self, change: impl FnOnce(&mut Faults) -> T) -> T {
        change(&mut self.lock().faults)
    }

    /// Calls of a method so far, failed ones too.
    pub fn calls(&self, method: &str) -> u64 {
        self.lock().calls.get(method).copied().unwrap_or(0)
    }

    /// The folded entities: (kind, key) -> state, none where deleted.
    pub fn entity_states(&self) -> BTreeMap<(String, String), Option<String>> {
        self.lock().entities.iter().map(|(at, entity)| (at.clone(), entity.record.state.clone())).collect()
    }

    /// Every recorded event, oldest first.
    pub fn recorded(&self) -> Vec<EventRecord> {
        self.lock().events.values().map(|event| event.record.clone()).collect()
    }

    /// What people did, oldest first.
    pub fn audit(&self) -> Vec<String> {
        self.lock().audit.clone()
    }

    /// Marks of trials that have not ended.
    pub fn open_trials(&self) -> usize {
        self.lock().trials.len()
    }

    /// Runs one call: counted, with the faults that are switched on.
    fn call<T>(
        &self,
        method: &'static str,
        work: impl FnOnce(&mut State) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let mut state = self.lock();
        *state.calls.entry(method).or_default() += 1;
        let fault = state.faults.hook.as_mut().and_then(|hook| hook(method));
        if let Some(Fault::Before(e)) = fault {
            return Err(e);
        }
        if state.faults.away {
            return Err(StoreError::Unavailable("switched off".to_owned()));
        }
        let answer = work(&mut state)?;
        match fault {
            Some(Fault::After(e)) => Err(e),
            _ => Ok(answer),
        }
    }
}

#[async_trait::async_trait]
impl Probe for FakeStore {
    async fn ping(&self) -> Result<(), StoreError> {
        self.call("ping", |_| Ok(()))
    }
}

fn change_record(change: &Change, verdict: oncefold_core::Verdict) -> ChangeRecord {
    ChangeRecord { entity: change.entity.clone(), key: change.key.clone(), version: change.version.clone(), verdict }
}
