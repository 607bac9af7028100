//! One source's consumer: receive, prepare, give verdicts, settle. Two batches are written at once, so that one is at
//! work while the other commits, and meanwhile the next is received and prepared. Settlement stays in order.

use crate::context::Context;
use crate::error::WorkerError;
use crate::pause::Pause;
use crate::report;
use crate::verdict::{Progress, Trouble, Work};
use futures_util::StreamExt as _;
use futures_util::stream::FuturesOrdered;
use oncefold_core::SourceName;
use oncefold_core::queue::{Prefetch, QueueError, QueueName, Received, Settlement, Subscription, Tag};
use std::collections::VecDeque;
use std::future::Future;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

/// Received messages on their way; `work` holds the readable ones, in order.
#[derive(Default)]
struct Batch {
    tags: Vec<(Tag, Kind)>,
    work: Vec<Work>,
}

/// A batch of which all has a verdict that could get one.
struct Written {
    tags: Vec<(Tag, Kind)>,
    progress: Progress,
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

    /// Writes batches, several at once, and settles them in the order they were received. What comes in while every
    /// writer is busy makes the next batch larger.
    async fn batches(&self, subscription: &mut dyn Subscription) -> Ended {
        let (mut writing, mut written) = (FuturesOrdered::new(), VecDeque::new());
        let mut next = Batch::default();
        let ended = loop {
            let is_writer_free = writing.len() < self.ctx.settings.writers.max(1);
            if !next.tags.is_empty() && is_writer_free && !self.soft.is_cancelled() {
                writing.push_back(self.write(std::mem::take(&mut next)));
            }
            if let Some(first) = written.pop_front() {
                match self.settle_beside(subscription, first, &mut writing, &mut written).await {
                    Some(ended) => break ended,
                    None if self.soft.is_cancelled() => break Ended::Stopped,
                    None => continue,
                }
            }
            let room = self.ctx.settings.batch_max().saturating_sub(next.tags.len());
            tokio::select! {
                biased;
                Some(first) = writing.next() => written.push_back(first),
                received = self.receive(subscription, room), if room > 0 => match received {
                    Ok(received) => self.take_in(received, &mut next),
                    Err(ended) => break ended,
                },
            }
        };
        while let Some(next) = writing.next().await {
            written.push_back(next);
        }
        for written in written {
            let _ = self.settle(subscription, written).await; // the first reason to end is the one that counts
        }
        ended
    }

    /// Settles one batch while the others go on being written: a transaction that is open holds its locks.
    async fn settle_beside<W: Future<Output = Written>>(
        &self,
        subscription: &mut dyn Subscription,
        first: Written,
        writing: &mut FuturesOrdered<W>,
        written: &mut VecDeque<Written>,
    ) -> Option<Ended> {
        let settling = self.settle(subscription, first);
        tokio::pin!(settling);
        loop {
            tokio::select! {
                biased;
                ended = &mut settling => return ended,
                Some(next) = writing.next() => written.push_back(next),
            }
        }
    }

    async fn write(&self, batch: Batch) -> Written {
        let _share = self.ctx.writing.acquire().await; // never closed
        let progress = match batch.work.is_empty() {
            true => Progress { settled: vec![], trouble: None },
            false => self.ctx.give_verdicts(batch.work).await,
        };
        Written { tags: batch.tags, progress }
    }

    async fn receive(&self, subscription: &mut dyn Subscription, max: usize) -> Result<Vec<Received>, Ended> {
        tokio::select! {
            biased;
            () = self.soft.cancelled() => Err(Ended::Stopped),
            () = self.ctx.gate.closed() => Err(Ended::StoreAway(None)),
            received = subscription.receive(max, self.ctx.settings.linger) => received.map_err(Ended::QueueAway),
        }
    }

    fn take_in(&self, received: Vec<Received>, batch: &mut Batch) {
        for Received { tag, message, .. } in received {
            match message {
                Ok(message) => {
                    batch.tags.push((tag, Kind::Event));
                    batch.work.push(self.ctx.work(Arc::new(message)));
                }
                Err(why) => {
                    report::foreign(&self.ctx, &Self::part(&self.source), self.source.as_str(), &why.to_string());
                    batch.tags.push((tag, Kind::Foreign));
                }
            }
        }
    }

    /// Settles what has a verdict; the rest goes back to the queue when the subscription closes.
    async fn settle(&self, subscription: &mut dyn Subscription, written: Written) -> Option<Ended> {
        let Written { tags, progress } = written;
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
