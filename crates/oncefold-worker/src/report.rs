//! What is told of verdicts: metrics, and one line each, by whose trace id a delivery is followed from intake.

use crate::context::Context;
use crate::verdict::Work;
use oncefold_core::event::Setback;
use oncefold_core::prepare::{Plan, Prepared};
use oncefold_core::store::{Outcome, Settled};
use oncefold_core::{EntityKind, Failure, Message, Timestamp};
use oncefold_telemetry::Histogram;
use std::sync::Arc;
use tracing::{debug, info, warn};

/// What is kept of an event while its transaction runs.
pub(crate) struct Subject {
    message: Arc<Message>,
    /// Kept for a setback only.
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
        let event_type = setback.as_ref().and_then(|_| work.prepared.event_type.clone());
        Self { message: Arc::clone(&work.message), event_type, kinds, setback }
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
    let mut counts = Counts::of(ctx);
    for (subject, outcome) in subjects.iter().zip(outcomes) {
        counts.add(subject, outcome);
        log(subject, outcome);
    }
    counts.tell();
}

/// What a batch comes to: most events of one are alike, so that a metric is looked up once for many.
struct Counts<'a> {
    ctx: &'a Context,
    committed_at: Timestamp,
    events: Vec<((&'a str, &'static str), u64)>,
    changes: Vec<((&'a str, &'static str), u64)>,
    lags: Vec<(&'a str, Histogram)>,
}

impl<'a> Counts<'a> {
    fn of(ctx: &'a Context) -> Self {
        Self { ctx, committed_at: ctx.clock.now(), events: vec![], changes: vec![], lags: vec![] }
    }

    fn add(&mut self, subject: &'a Subject, outcome: &Outcome) {
        let metrics = &self.ctx.metrics;
        let message = &subject.message;
        let source = message.source.as_str();
        one_more(&mut self.events, (source, name(outcome.settled)));
        for (kind, verdict) in subject.kinds.iter().zip(&outcome.verdicts) {
            one_more(&mut self.changes, (kind.as_str(), verdict.as_str()));
        }
        let reason = subject.failure().map_or("", |failure| failure.reason.as_str());
        match outcome.settled {
            Settled::Applied if message.generation == 0 => {
                let lag_s = self.committed_at.since(message.received_at).as_secs_f64();
                let at = self.lags.iter().position(|(of, _)| *of == source).unwrap_or_else(|| {
                    self.lags.push((source, metrics.event_lag_seconds.with_label_values(&[source])));
                    self.lags.len() - 1
                });
                self.lags[at].1.observe(lag_s);
            }
            Settled::Retrying => metrics.retries.with_label_values(&[source, reason]).inc(),
            Settled::Dead => metrics.dead_lettered.with_label_values(&[source, reason]).inc(),
            _ => {}
        }
    }

    fn tell(self) {
        for ((source, outcome), count) in self.events {
            self.ctx.metrics.worker_events.with_label_values(&[source, outcome]).inc_by(count);
        }
        for ((kind, verdict), count) in self.changes {
            self.ctx.metrics.changes.with_label_values(&[kind, verdict]).inc_by(count);
        }
    }
}

fn one_more<L: PartialEq>(counts: &mut Vec<(L, u64)>, labels: L) {
    match counts.iter_mut().find(|(counted, _)| *counted == labels) {
        Some((_, count)) => *count += 1,
        None => counts.push((labels, 1)),
    }
}

fn log(subject: &Subject, outcome: &Outcome) {
    let message = &subject.message;
    let outcome_name = name(outcome.settled);
    match (outcome.settled, subject.failure()) {
        (Settled::Dead | Settled::Retrying, Some(failure)) => warn!(
            source = %message.source, event = %message.id, event_id = message.event_id, outcome = outcome_name,
            reason = failure.reason.as_str(), why = failure.message, attempt = message.attempts.saturating_add(1),
            trace = &*message.facts.trace_id(), "verdict"
        ),
        _ => info!(
            source = %message.source, event = %message.id, event_id = message.event_id, outcome = outcome_name,
            variant = outcome.variant, generation = message.generation, trace = &*message.facts.trace_id(),
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
