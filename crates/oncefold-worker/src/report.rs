//! What is told of verdicts: metrics, and one line each, by whose trace id a delivery is followed from intake.

use crate::context::Context;
use crate::verdict::Work;
use oncefold_core::event::Setback;
use oncefold_core::prepare::{Plan, Prepared};
use oncefold_core::store::{Outcome, Settled};
use oncefold_core::{EntityKind, Failure, Message};
use std::sync::Arc;
use tracing::{debug, info, warn};

/// What is kept of an event while its transaction runs.
pub(crate) struct Subject {
    message: Arc<Message>,
    event_type: Option<String>,
    kinds: Vec<EntityKind>,
    setback: Option<Setback>,
}

impl Subject {
    pub fn of(work: &Work) -> Self {
        let (kinds, setback) = match &work.prepared.plan {
            Plan::Apply(changes) => (changes.iter().map(|c| c.entity.clone()).collect(), None),
            Plan::Ignore => (vec![], None),
            Plan::Setback(setback) => (vec![], Some(setback.clone())),
        };
        Self { message: Arc::clone(&work.message), event_type: work.prepared.event_type.clone(), kinds, setback }
    }

    /// The same work once more: preparing is pure, so that what is rarely needed is not copied for every event.
    pub fn again(&self, ctx: &Context) -> Work {
        let message = Arc::clone(&self.message);
        match &self.setback {
            Some(setback) => {
                let plan = Plan::Setback(setback.clone());
                Work { message, prepared: Prepared { event_type: self.event_type.clone(), plan } }
            }
            None => ctx.work(message),
        }
    }

    fn failure(&self) -> Option<&Failure> {
        match &self.setback {
            Some(Setback::Retry(failure, _) | Setback::Dead(failure)) => Some(failure),
            None => None,
        }
    }
}

/// The outcome as logs and metrics name it.
const fn name(settled: Settled) -> &'static str {
    match settled {
        Settled::Applied => "applied",
        Settled::Ignored => "ignored",
        Settled::Retrying => "retrying",
        Settled::Dead => "dead",
        Settled::Repeat => "repeat",
        Settled::Woken => "woken",
        Settled::Late => "late",
    }
}

/// Tells of a committed batch.
pub(crate) fn verdicts(ctx: &Context, subjects: &[Subject], outcomes: &[Outcome]) {
    let events = u32::try_from(subjects.len()).unwrap_or(u32::MAX);
    ctx.metrics.worker_batch_events.observe(f64::from(events));
    debug!(events, "a batch is committed");
    for (subject, outcome) in subjects.iter().zip(outcomes) {
        count(ctx, subject, outcome);
        log(subject, outcome);
    }
}

fn count(ctx: &Context, subject: &Subject, outcome: &Outcome) {
    let message = &subject.message;
    let source = message.source.as_str();
    ctx.metrics.worker_events.with_label_values(&[source, name(outcome.settled)]).inc();
    for (kind, verdict) in subject.kinds.iter().zip(&outcome.verdicts) {
        ctx.metrics.changes.with_label_values(&[kind.as_str(), verdict.as_str()]).inc();
    }
    let reason = subject.failure().map_or("", |failure| failure.reason.as_str());
    match outcome.settled {
        Settled::Applied if message.generation == 0 => {
            let lag_s = ctx.clock.now().since(message.received_at).as_secs_f64();
            ctx.metrics.event_lag_seconds.with_label_values(&[source]).observe(lag_s);
        }
        Settled::Retrying => ctx.metrics.retries.with_label_values(&[source, reason]).inc(),
        Settled::Dead => ctx.metrics.dead_lettered.with_label_values(&[source, reason]).inc(),
        _ => {}
    }
}

fn log(subject: &Subject, outcome: &Outcome) {
    let message = &subject.message;
    let outcome_name = name(outcome.settled);
    match (outcome.settled, subject.failure()) {
        (Settled::Dead | Settled::Retrying, Some(failure)) => warn!(
            source = %message.source, event = %message.id, event_id = message.event_id, outcome = outcome_name,
            reason = failure.reason.as_str(), why = failure.message, attempt = message.attempts.saturating_add(1),
            trace = message.facts.trace_id(), "verdict"
        ),
        _ => info!(
            source = %message.source, event = %message.id, event_id = message.event_id, outcome = outcome_name,
            variant = outcome.variant, generation = message.generation, trace = message.facts.trace_id(),
            "verdict"
        ),
    }
}

/// Tells of a message that is none of ours.
pub(crate) fn foreign(ctx: &Context, queue: &str, source: &str, why: &str) {
    ctx.metrics.worker_events.with_label_values(&[source, "foreign"]).inc();
    tracing::error!(queue, why, "a message cannot be read: it goes to the dead letters' queue");
}

/// Labels a letter whose source cannot be read.
pub(crate) const NO_SOURCE: &str = "unknown";
