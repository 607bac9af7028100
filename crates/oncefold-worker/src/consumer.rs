//! One source's consumer: receive, prepare, give verdicts, settle. While the store writes one batch, the next is
//! received and prepared; settlement stays in order.

use crate::context::Context;
use crate::error::WorkerError;
use crate::pause::Pause;
use crate::report;
use crate::verdict::{Progress, Trouble, Work};
use oncefold_core::SourceName;
use oncefold_core::queue::{Prefetch, QueueError, QueueName, Received, Settlement, Subscription, Tag};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

/// Received messages on their way; `work` holds the readable ones, in order.
struct Batch {
    tags: Vec<(Tag, Kind)>,
    work: Vec<Work>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Event,
    Foreign,
}

/// Why a subscription ended.
enum Ended {
    Stopped,
    StoreAway(Option<String>),
    QueueAway(QueueError),
    RulesBehind,
}

pub(crate) struct Consumer {
    pub ctx: Arc<Context>,
    pub source: SourceName,
    pub prefetch: Prefetch,
    pub soft: CancellationToken,
}

impl Consumer {
    /// The queue's name, which is also its part in `/readyz`.
    pub fn part(source: &SourceName) -> String {
        QueueName::Work(source.clone()).to_string()
    }

    /// Consumes until stopped.
    pub async fn run(self) -> Result<(), WorkerError> {
        let part = Self::part(&self.source);
        let pace = self.ctx.settings.pace;
        let mut pause = Pause::between(pace.pause_first, pace.pause_max);
        loop {
            tokio::select! {
                biased;
                () = self.soft.cancelled() => return Ok(()),
                () = self.ctx.gate.pass() => {}
            }
            let ended = match self.subscribe().await {
                Ok(subscription) => {
                    self.ctx.health.mend(&part);
                    pause.reset();
                    info!(queue = part, "consuming");
                    self.consume(subscription).await
                }
                Err(e) => Ended::QueueAway(e),
            };
            match ended {
                Ended::Stopped => return Ok(()),
                Ended::RulesBehind => return Err(WorkerError::RulesBehind),
                Ended::StoreAway(cause) => cause.iter().for_each(|cause| self.ctx.store_is_away(cause)),
                Ended::QueueAway(e) => {
                    if self.ctx.health.fail(&part, e.to_string()) {
                        warn!(queue = part, error = %e, "not consuming, it is tried again");
                    }
                    tokio::select! {
                        () = self.soft.cancelled() => return Ok(()),
                        () = tokio::time::sleep(pause.after_failure(self.ctx.entropy.as_ref())) => {}
                    }
                }
            }
        }
    }

    /// The dead letters' queue is declared first: a letter that finds none waits long at the broker.
    async fn subscribe(&self) -> Result<Box<dyn Subscription>, QueueError> {
        self.ctx.queue.declare(std::slice::from_ref(&self.source)).await?;
        self.ctx.queue.subscribe(QueueName::Work(self.source.clone()), self.prefetch).await
    }

    async fn consume(&self, mut subscription: Box<dyn Subscription>) -> Ended {
        let ended = self.batches(subscription.as_mut()).await;
        subscription.close().await;
        ended
    }

    async fn batches(&self, subscription: &mut dyn Subscription) -> Ended {
        let mut ahead: Option<Batch> = None;
        loop {
            let batch = match ahead.take() {
                Some(batch) => batch,
                None => match self.receive(subscription).await {
                    Ok(batch) => batch,
                    Err(ended) => return ended,
                },
            };
            let Batch { tags, work } = batch;
            let (progress, next) = self.overlapped(subscription, work).await;
            let trouble = self.settle(subscription, &tags, progress).await;
            match (trouble, next) {
                (Some(ended), _) | (None, Err(ended)) => return ended,
                (None, Ok(_)) if self.soft.is_cancelled() => return Ended::Stopped,
                (None, Ok(next)) => ahead = next,
            }
        }
    }

    async fn receive(&self, subscription: &mut dyn Subscription) -> Result<Batch, Ended> {
        let settings = &self.ctx.settings;
        tokio::select! {
            biased;
            () = self.soft.cancelled() => Err(Ended::Stopped),
            () = self.ctx.gate.closed() => Err(Ended::StoreAway(None)),
            received = subscription.receive(settings.batch, settings.linger) => {
                received.map(|r| self.prepared(r)).map_err(Ended::QueueAway)
            }
        }
    }

    /// Gives verdicts on `work`, and meanwhile takes in at most one batch more.
    async fn overlapped(
        &self,
        subscription: &mut dyn Subscription,
        work: Vec<Work>,
    ) -> (Progress, Result<Option<Batch>, Ended>) {
        if work.is_empty() {
            return (Progress { settled: vec![], trouble: None }, Ok(None));
        }
        let writing = self.ctx.give_verdicts(work);
        tokio::pin!(writing);
        let next = tokio::select! {
            biased;
            progress = &mut writing => return (progress, Ok(None)),
            next = self.receive(subscription) => next.map(Some),
        };
        (writing.await, next)
    }

    fn prepared(&self, received: Vec<Received>) -> Batch {
        let mut batch = Batch { tags: Vec::with_capacity(received.len()), work: Vec::with_capacity(received.len()) };
        for Received { tag, message, .. } in received {
            match message {
                Ok(message) => {
                    batch.tags.push((tag, Kind::Event));
                    batch.work.push(self.ctx.work(Arc::new(message)));
                }
                Err(why) => {
                    report::foreign(&self.ctx, &Self::part(&self.source), self.source.as_str(), &why);
                    batch.tags.push((tag, Kind::Foreign));
                }
            }
        }
        batch
    }

    /// Settles what has a verdict; the rest goes back to the queue when the subscription closes.
    async fn settle(
        &self,
        subscription: &mut dyn Subscription,
        tags: &[(Tag, Kind)],
        progress: Progress,
    ) -> Option<Ended> {
        let mut settled = progress.settled.iter();
        let settlements = tags.iter().map_while(|(tag, kind)| match kind {
            Kind::Foreign => Some((*tag, Settlement::Reject)),
            Kind::Event => settled.next().map(|settled| (*tag, settled.settlement())),
        });
        let settled = subscription.settle(settlements.collect()).await;
        match (progress.trouble, settled) {
            (Some(Trouble::RulesBehind), _) => Some(Ended::RulesBehind),
            (Some(Trouble::StoreAway(cause)), _) => Some(Ended::StoreAway(Some(cause))),
            (None, Err(e)) => Some(Ended::QueueAway(e)),
            (None, Ok(())) => None,
        }
    }
}
