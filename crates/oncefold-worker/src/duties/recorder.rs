//! The dead-letter recorder. A letter whose reason is recorded is done with. A suspect, which the broker gave up on, is
//! tried alone under a committed mark: where one process after the other ended with its mark standing, this message is
//! known for the poison, and no innocent neighbour dies with it.

use crate::context::Context;
use crate::error::WorkerError;
use crate::pause::Pause;
use crate::report;
use crate::verdict::Trouble;
use oncefold_core::event::Setback;
use oncefold_core::limits::TRIAL_STARTS_MAX;
use oncefold_core::queue::{Death, Prefetch, QueueError, QueueName, Received, Settlement, Subscription, Unreadable};
use oncefold_core::store::{StoreError, Trial, TrialStart};
use oncefold_core::{Failure, Message, Reason};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

/// Letters taken at once: few, since a suspect may end the process.
const PREFETCH: Prefetch = Prefetch { messages: 16, bytes: 4 * 1024 * 1024 };
/// It grows to this while letters that a newer version wrote are held, so that those behind them come in.
const PREFETCH_MAX: Prefetch = Prefetch { messages: 4096, bytes: 64 * 1024 * 1024 };
const LINGER: Duration = Duration::from_millis(10);
/// Longest wait before another look at a letter that another process is trying.
const BUSY_PAUSE: Duration = Duration::from_secs(1);

pub struct Recorder {
    pub ctx: Arc<Context>,
    pub soft: CancellationToken,
}

/// How long letters that a newer version wrote are held before they are given back.
const HOLDING_MAX: Duration = Duration::from_secs(60);

/// Why no more letters are taken from a subscription.
enum Ended {
    Stopped,
    /// Letters that are only held fill it.
    Full,
    QueueAway(QueueError),
    RulesBehind,
}

/// How one look at a letter ended.
enum Look {
    Done,
    Again(Duration),
}

impl Recorder {
    /// Records letters until stopped.
    pub async fn run(self) -> Result<(), WorkerError> {
        let part = QueueName::Dead.to_string();
        let mut pause = Pause::between(self.ctx.settings.pace.pause_first, self.ctx.settings.pace.pause_max);
        let mut prefetch = PREFETCH;
        loop {
            tokio::select! {
                biased;
                () = self.soft.cancelled() => return Ok(()),
                () = self.ctx.gate.pass() => {}
            }
            let ended = match self.subscribe(prefetch).await {
                Ok(mut subscription) => {
                    self.ctx.health.mend(&part);
                    pause.reset();
                    let ended = self.letters(subscription.as_mut(), &mut prefetch).await;
                    subscription.close().await;
                    ended
                }
                Err(e) => Ended::QueueAway(e),
            };
            match ended {
                Ended::Stopped => return Ok(()),
                Ended::RulesBehind => return Err(WorkerError::RulesBehind),
                Ended::Full => prefetch = doubled(prefetch),
                Ended::QueueAway(e) => {
                    if self.ctx.health.fail(&part, e.to_string()) {
                        warn!(queue = part, error = %e, "not recording dead letters, it is tried again");
                    }
                    self.wait(pause.after_failure(self.ctx.entropy.as_ref())).await;
                }
            }
        }
    }

    async fn subscribe(&self, prefetch: Prefetch) -> Result<Box<dyn Subscription>, QueueError> {
        self.ctx.queue.declare(&[]).await?;
        self.ctx.queue.subscribe(QueueName::Dead, prefetch).await
    }

    /// `prefetch` is the subscription's, and goes back to the usual one where nothing had to be held.
    async fn letters(&self, subscription: &mut dyn Subscription, prefetch: &mut Prefetch) -> Ended {
        let (mut held, room) = (0, std::mem::replace(prefetch, PREFETCH));
        let mut holding_until: Option<Instant> = None;
        loop {
            let received = tokio::select! {
                biased;
                () = self.soft.cancelled() => return Ended::Stopped,
                () = sleep_until(holding_until.unwrap_or_else(Instant::now)), if holding_until.is_some() => {
                    return Ended::QueueAway(QueueError::Away("letters that it cannot read were given back".to_owned()));
                }
                received = subscription.receive(usize::from(PREFETCH.messages), LINGER) => received,
            };
            let letters = match received {
                Ok(letters) => letters,
                Err(e) => return Ended::QueueAway(e),
            };
            for Received { tag, message, death } in letters {
                match message {
                    Ok(message) => {
                        if let Err(ended) = self.record(&Arc::new(message), death).await {
                            return ended;
                        }
                    }
                    Err(Unreadable::Foreign(why)) => {
                        report::foreign(&self.ctx, &QueueName::Dead.to_string(), report::NO_SOURCE, &why);
                    }
                    Err(newer @ Unreadable::Newer(_)) => {
                        self.hold(&newer);
                        holding_until.get_or_insert_with(|| Instant::now() + HOLDING_MAX);
                        (held, *prefetch) = (held + 1, room);
                        if held >= room.messages && room.messages < PREFETCH_MAX.messages {
                            return Ended::Full;
                        }
                        continue;
                    }
                }
                if let Err(e) = subscription.settle(vec![(tag, Settlement::Ack)]).await {
                    return Ended::QueueAway(e);
                }
            }
        }
    }

    /// A letter that only a newer version reads is left unsettled, and given back now and then, for a worker that can.
    /// Those behind it are seen to.
    fn hold(&self, newer: &Unreadable) {
        let part = QueueName::Dead.to_string();
        if self.ctx.health.fail(&part, newer.to_string()) {
            warn!(queue = part, error = %newer, "a dead letter is left for another worker");
        }
    }

    /// Sees one letter to its end. With the database away it is held: a mark may stand in our name, and another process
    /// that got the letter meanwhile would take us for dead.
    async fn record(&self, message: &Arc<Message>, death: Option<Death>) -> Result<(), Ended> {
        let mut pause = Pause::between(self.ctx.settings.pace.pause_first, self.ctx.settings.pace.pause_max);
        loop {
            tokio::select! {
                biased;
                () = self.soft.cancelled() => return Err(Ended::Stopped),
                () = self.ctx.gate.pass() => {}
            }
            let look = match self.look(message, death).await {
                Ok(look) => look,
                Err(Trouble::RulesBehind) => return Err(Ended::RulesBehind),
                Err(Trouble::StoreAway(why)) => {
                    self.ctx.store_is_away(&why);
                    Look::Again(pause.after_failure(self.ctx.entropy.as_ref()))
                }
            };
            match look {
                Look::Done => return Ok(()),
                Look::Again(after) => self.wait(after).await,
            }
        }
    }

    async fn look(&self, message: &Arc<Message>, death: Option<Death>) -> Result<Look, Trouble> {
        let store = &self.ctx.store;
        if death == Some(Death::Rejected) && self.ctx.in_time(store.is_recorded(message)).await.map_err(away)? {
            return Ok(Look::Done);
        }
        let now = self.ctx.clock.now();
        let trial = Trial {
            id: message.id,
            generation: message.generation,
            holder: self.ctx.settings.holder.clone(),
            now,
            lease_until: now.plus(self.ctx.settings.pace.trial_lease),
        };
        match self.ctx.in_time(store.begin_trial(&trial)).await.map_err(away)? {
            TrialStart::Busy(until) => {
                return Ok(Look::Again(until.since(now).clamp(Duration::from_millis(1), BUSY_PAUSE)));
            }
            TrialStart::Settled => {}
            TrialStart::Begun => {
                info!(source = %message.source, event = %message.id, trace = &*message.facts.trace_id(),
                    "a suspect is tried alone");
                let progress = self.ctx.give_verdicts(vec![self.ctx.work(Arc::clone(message))]).await;
                if let Some(trouble) = progress.trouble {
                    return Err(trouble);
                }
            }
            TrialStart::Interrupted => {
                let why = format!(
                    "{TRIAL_STARTS_MAX} workers ended while each tried this event alone, after the broker had given it up"
                );
                let setback = Setback::Dead(Failure::of(Reason::DeliveryLimit, &why));
                self.ctx.record_setback(message, setback).await?;
            }
        }
        self.ctx.in_time(store.end_trial(message.id, message.generation)).await.map_err(away)?;
        Ok(Look::Done)
    }

    async fn wait(&self, pause: Duration) {
        tokio::select! {
            () = self.soft.cancelled() => {}
            () = tokio::time::sleep(pause) => {}
        }
    }
}

fn doubled(prefetch: Prefetch) -> Prefetch {
    Prefetch {
        messages: prefetch.messages.saturating_mul(2).min(PREFETCH_MAX.messages),
        bytes: prefetch.bytes.saturating_mul(2).min(PREFETCH_MAX.bytes),
    }
}

fn away(e: StoreError) -> Trouble {
    match e {
        StoreError::RulesBehind => Trouble::RulesBehind,
        other => Trouble::StoreAway(other.to_string()),
    }
}
