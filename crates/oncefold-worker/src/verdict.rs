//! Giving verdicts: a batch in one transaction; where the database faults it, again, or in parts.

use crate::context::Context;
use crate::report::{self, Subject};
use oncefold_core::event::Setback;
use oncefold_core::prepare::{Plan, Prepared};
use oncefold_core::store::{ApplyBatch, ApplyItem, Outcome, Settled, StoreError};
use oncefold_core::{Digest, Facts, FactsJson, Failure, Message, Reason};
use std::sync::Arc;
use std::time::Duration;
use tracing::{debug, error};

/// Times a transaction that lost against another is done again before the database counts as away.
const CONFLICT_TRIES: u32 = 6;
/// Longest first pause before that; it doubles.
const CONFLICT_PAUSE: Duration = Duration::from_millis(10);

/// So many events of a batch in a row may be kept from their writes, each alone and each for the time that locks are waited
/// for; one more, and it is taken for the database's doing.
const HINDERED_MAX: u32 = 3;

/// An event as a worker has it in hand.
pub(crate) struct Work {
    pub message: Arc<Message>,
    pub prepared: Prepared,
}

/// Why no more verdicts can be given for now. It counts as nobody's attempt.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// The database is away, or fails whatever it is given.
    StoreAway(String),
    /// This worker's config is outdated.
    RulesBehind,
}

/// How far a batch came.
#[derive(Debug)]
pub(crate) struct Progress {
    /// Where the first so many events stand now, in their order.
    pub settled: Vec<Settled>,
    /// Why the others have no verdict, if there are any.
    pub trouble: Option<Trouble>,
}

impl Context {
    /// What a message means, ready for [`Context::give_verdicts`].
    pub fn work(&self, message: Arc<Message>) -> Work {
        let prepared = self.prepare(&message);
        Work { message, prepared }
    }

    /// Writes a batch. A poison event never blocks its neighbours: a batch that is refused or fails goes again in parts,
    /// down to single events.
    pub async fn give_verdicts(&self, batch: Vec<Work>) -> Progress {
        let messages: Vec<Arc<Message>> = batch.iter().map(|work| Arc::clone(&work.message)).collect();
        let (mut part, mut written) = (&messages[..], self.write(batch).await);
        let (mut settled, mut waiting, mut hindered_in_a_row) = (Vec::with_capacity(messages.len()), vec![], 0);
        loop {
            let given = match written {
                Err(e) if part.len() > 1 && may_be_of_one_event(&e) => {
                    debug!(error = %e, events = part.len(), "a batch failed: it goes again in parts");
                    waiting.extend(parts(part, &e).rev());
                    Ok(vec![])
                }
                Err(e) => {
                    hindered_in_a_row = if is_hindered(&e) { hindered_in_a_row + 1 } else { 0 };
                    match hindered_in_a_row > HINDERED_MAX {
                        true => Err(Trouble::StoreAway(e.to_string())),
                        false => self.after_fault(part, e).await,
                    }
                }
                Ok(given) => {
                    hindered_in_a_row = 0;
                    Ok(given)
                }
            };
            match given {
                Ok(given) => settled.extend(given),
                Err(trouble) => return Progress { settled, trouble: Some(trouble) },
            }
            let Some(next) = waiting.pop() else { return Progress { settled, trouble: None } };
            part = next;
            written = self.write(part.iter().map(|message| self.work(Arc::clone(message))).collect()).await;
        }
    }

    /// What a fault means for an event that was alone in its transaction; for several, only those faults come here
    /// that are not about the events. Where the database keeps even from recording the setback, it is away.
    async fn after_fault(&self, messages: &[Arc<Message>], fault: StoreError) -> Result<Vec<Settled>, Trouble> {
        let setback = match (&fault, messages) {
            (StoreError::Refused(why), [_]) => Setback::Dead(Failure::of(Reason::ApplyRejected, why)),
            (StoreError::Failed(why) | StoreError::Hindered(why) | StoreError::Conflict(why), [message]) => {
                self.setback_of_failure(message, why)
            }
            (StoreError::RulesBehind, _) => return Err(Trouble::RulesBehind),
            _ => return Err(Trouble::StoreAway(fault.to_string())),
        };
        self.record_setback(&messages[0], setback).await.map(|settled| vec![settled])
    }

    fn setback_of_failure(&self, message: &Message, why: &str) -> Setback {
        let failure = Failure::of(Reason::ApplyFailed, why);
        let attempts = message.attempts.saturating_add(1);
        match self.settings.retry.delay_after(attempts, self.entropy.next_u64()) {
            Some(delay) => Setback::Retry(failure, self.clock.now().plus(delay)),
            None => Setback::Dead(failure),
        }
    }

    /// Records that an event cannot be applied; where its own texts are refused, without them.
    pub async fn record_setback(&self, message: &Arc<Message>, setback: Setback) -> Result<Settled, Trouble> {
        let event_type = self.prepare(message).event_type;
        let prepared = Prepared { event_type, plan: Plan::Setback(setback.clone()) };
        let mut given = self.write(vec![Work { message: Arc::clone(message), prepared }]).await;
        if let Err(StoreError::Refused(why)) = &given {
            error!(event = %message.id, source = %message.source, error = %why,
                "the database refuses what this event is called: it is kept under its body digest");
            let prepared = Prepared { event_type: None, plan: Plan::Setback(setback) };
            given = self.write(vec![Work { message: Arc::new(without_texts(message)), prepared }]).await;
        }
        match given {
            Ok(settled) => settled.first().copied().ok_or_else(|| Trouble::StoreAway(no_outcome(1, 0))),
            Err(StoreError::RulesBehind) => Err(Trouble::RulesBehind),
            Err(e) => Err(Trouble::StoreAway(e.to_string())),
        }
    }

    /// One transaction, again while it loses against others.
    async fn write(&self, batch: Vec<Work>) -> Result<Vec<Settled>, StoreError> {
        let subjects: Vec<Subject> = batch.iter().map(Subject::of).collect();
        let mut items = batch;
        let mut tries = 1;
        let outcomes = loop {
            match self.apply_once(items).await {
                Err(StoreError::Conflict(why)) if tries < CONFLICT_TRIES => {
                    debug!(why, tries, "the batch lost against another transaction: again");
                    tokio::time::sleep(conflict_pause(tries, self.entropy.next_u64())).await;
                    tries += 1;
                    items = subjects.iter().map(|s| s.again(self)).collect();
                }
                other => break other?,
            }
        };
        self.gate.prove();
        report::verdicts(self, &subjects, &outcomes);
        Ok(outcomes.into_iter().map(|outcome| outcome.settled).collect())
    }

    async fn apply_once(&self, batch: Vec<Work>) -> Result<Vec<Outcome>, StoreError> {
        let events = batch.len();
        let items = batch.into_iter().map(|w| ApplyItem { message: w.message, prepared: w.prepared }).collect();
        let batch = ApplyBatch { now: self.clock.now(), rules_version: self.rules_version, items };
        let outcomes = self.in_time(self.store.apply(batch)).await?;
        if outcomes.len() == events {
            Ok(outcomes)
        } else {
            Err(StoreError::Failed(no_outcome(events, outcomes.len())))
        }
    }
}

/// Halves, so that one poison event costs few statements; or each alone, where every further try may wait for a lock.
fn parts<'m>(part: &'m [Arc<Message>], fault: &StoreError) -> std::slice::Chunks<'m, Arc<Message>> {
    part.chunks(if is_hindered(fault) { 1 } else { part.len().div_ceil(2) })
}

fn may_be_of_one_event(fault: &StoreError) -> bool {
    matches!(fault, StoreError::Refused(_) | StoreError::Failed(_)) || is_hindered(fault)
}

fn is_hindered(fault: &StoreError) -> bool {
    matches!(fault, StoreError::Hindered(_) | StoreError::Conflict(_))
}

fn conflict_pause(tries: u32, random: u64) -> Duration {
    let bound_us = u128::from(u64::try_from(CONFLICT_PAUSE.as_micros()).unwrap_or(u64::MAX) << tries.min(10));
    Duration::from_micros(u64::try_from((u128::from(random) * bound_us) >> 64).unwrap_or_default())
}

fn no_outcome(events: usize, outcomes: usize) -> String {
    format!("{events} events went in, {outcomes} outcomes came back")
}

/// The event under names that no database refuses; its body stays exact.
fn without_texts(message: &Message) -> Message {
    Message {
        event_id: Message::fallback_event_id(&Digest::of(&message.body)),
        event_type: None,
        facts: FactsJson::encode(&Facts { trace_id: message.facts.trace_id().into_owned(), ..Facts::default() }),
        ..message.clone()
    }
}
