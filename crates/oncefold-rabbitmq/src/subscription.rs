//! A consumer on a channel of its own.

use crate::consuming::close_channel;
use crate::group;
use crate::lane::Work;
use crate::ledger::{Complete, Group, Ledger};
use crate::prefetch::Window;
use crate::publishing::Publishing;
use crate::settling::{Step, plan};
use crate::topology::bounded;
use crate::wire::{self, Content};
use async_trait::async_trait;
use futures_util::future::try_join_all;
use futures_util::{StreamExt, TryStreamExt};
use lapin::message::Delivery;
use lapin::options::{BasicAckOptions, BasicCancelOptions, BasicConsumeOptions, BasicQosOptions, BasicRejectOptions};
use lapin::types::FieldTable;
use lapin::{Channel, Consumer};
use oncefold_core::queue::{Prefetch, QueueError, QueueName, Received, Settlement, Subscription, Tag};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout_at};
use tracing::warn;

/// An event that is here and was not given yet.
struct Ready {
    received: Received,
    bytes: usize,
    at: Instant,
}

/// A running subscription.
pub(crate) struct RabbitSubscription {
    queue: QueueName,
    channel: Channel,
    /// None while none runs, until enough is settled.
    consumer: Option<Consumer>,
    window: Window,
    bytes_max: usize,
    ready: VecDeque<Ready>,
    ledger: Ledger,
    /// Publishes the letters of single events of a group.
    publishing: Arc<Publishing>,
    /// The highest tag that came before the running consumer was started.
    earlier: u64,
    latest: u64,
    change: Option<JoinHandle<Result<Replaced, QueueError>>>,
    broken: Option<String>,
}

/// What a change of consumers gave.
struct Replaced {
    /// What the old one was still sent.
    rest: Vec<Delivery>,
    /// Prefetch of the new one; 0 for none.
    count: usize,
    consumer: Option<Consumer>,
}

/// Stops the old consumer, and starts one that may be sent `room` messages less what came with the old one's end.
async fn replace(
    channel: Channel,
    queue: QueueName,
    old: Option<Consumer>,
    room: usize,
) -> Result<Replaced, QueueError> {
    let mut rest = Vec::new();
    if let Some(old) = old {
        let stopped = async {
            channel.basic_cancel(old.tag(), BasicCancelOptions::default()).await?;
            old.try_collect().await
        };
        rest = bounded("stop a consumer", stopped).await?;
    }
    let count = room.saturating_sub(rest.len());
    let Some(prefetch) = u16::try_from(count).ok().filter(|count| *count > 0) else {
        return Ok(Replaced { rest, count: 0, consumer: None });
    };
    let started = async {
        channel.basic_qos(prefetch, BasicQosOptions::default()).await?;
        let (options, arguments) = (BasicConsumeOptions::default(), FieldTable::default());
        channel.basic_consume(queue.to_string().into(), "".into(), options, arguments).await
    };
    let consumer = bounded(&format!("start consuming {queue}"), started).await?;
    Ok(Replaced { rest, count, consumer: Some(consumer) })
}

impl RabbitSubscription {
    pub(crate) async fn start(
        channel: Channel,
        queue: QueueName,
        prefetch: Prefetch,
        publishing: Arc<Publishing>,
    ) -> Result<Self, QueueError> {
        let mut subscription = Self {
            queue,
            channel,
            consumer: None,
            window: Window::within(prefetch),
            bytes_max: prefetch.bytes,
            ready: VecDeque::new(),
            ledger: Ledger::default(),
            publishing,
            earlier: 0,
            latest: 0,
            change: None,
            broken: None,
        };
        subscription.adapt().await?;
        Ok(subscription)
    }

    /// Replaces the consumer where the window asks for another prefetch: RabbitMQ takes a consumer's once, at its start.
    /// What the old one was sent stays unsettled on the channel and is settled as before. The work is done by a task, so
    /// that nothing is lost when the caller gives up waiting: the next call waits on.
    async fn adapt(&mut self) -> Result<(), QueueError> {
        loop {
            let Some(change) = &mut self.change else {
                let held = self.ledger.messages().len();
                let Some(room) = self.window.replacement(held) else { return Ok(()) };
                let (channel, queue, old) = (self.channel.clone(), self.queue.clone(), self.consumer.take());
                self.change = Some(tokio::spawn(replace(channel, queue, old, room)));
                continue;
            };
            let replaced = change.await.map_err(|error| QueueError::Away(error.to_string()));
            self.change = None;
            let Replaced { rest, count, consumer } = replaced??;
            for delivery in rest {
                self.admit(delivery);
            }
            self.window.started(count);
            self.earlier = self.latest;
            self.consumer = consumer;
        }
    }

    fn admit(&mut self, delivery: Delivery) {
        let (tag, bytes) = (delivery.delivery_tag, delivery.data.len());
        let (content, death) = wire::read(delivery);
        self.latest = self.latest.max(tag);
        let (messages, group) = match content {
            Ok(Content::One(message)) => (vec![Ok(*message)], None),
            Ok(Content::Several(messages, data)) => {
                let group = messages.first().map(|first| Group { source: first.source.clone(), data });
                (messages.into_iter().map(Ok).collect(), group)
            }
            Err(unreadable) => (vec![Err(unreadable)], None),
        };
        self.window.observe(bytes, messages.len());
        let sizes: Vec<usize> = match &messages[..] {
            [_] => vec![bytes],
            several => several.iter().map(|message| message.as_ref().map_or(0, group::size)).collect(),
        };
        let (tags, at) = (self.ledger.came(tag, &sizes, group), Instant::now());
        let events = tags.into_iter().zip(messages).zip(sizes);
        self.ready.extend(events.map(|((tag, message), bytes)| {
            let received = Received { tag, message, death };
            Ready { received, bytes, at }
        }));
    }

    /// Waits for one more message. Cancel-safe: between the client's buffer and ours nothing is awaited.
    async fn pull(&mut self) -> Result<(), QueueError> {
        let Some(consumer) = &mut self.consumer else {
            return std::future::pending().await; // until something is settled, which needs us back
        };
        match consumer.next().await {
            Some(Ok(delivery)) => {
                self.admit(delivery);
                Ok(())
            }
            Some(Err(error)) => Err(QueueError::Away(format!("the subscription of {} broke: {error}", self.queue))),
            None => Err(QueueError::Away(format!("the broker ended the subscription of {}: deleted?", self.queue))),
        }
    }

    /// How many of the ready messages may be given now, at most `max`: as many as fit into the bytes, one at least where
    /// nothing is unsettled. The flag says whether a further one would fit if it were here.
    fn fitting(&self, max: usize, already: (usize, usize)) -> (usize, usize, bool) {
        let (mut count, mut bytes) = already;
        while count < max {
            let Some(next) = self.ready.get(count) else { return (count, bytes, true) };
            let held = self.ledger.given_bytes() + bytes;
            if held + next.bytes > self.bytes_max && (count > 0 || self.ledger.is_any_given()) {
                return (count, bytes, false);
            }
            count += 1;
            bytes += next.bytes;
        }
        (count, bytes, false)
    }

    async fn gather(&mut self, max: usize, linger: Duration) -> Result<Vec<Received>, QueueError> {
        let mut fitting = (0, 0);
        loop {
            self.adapt().await?; // first of all: it may bring messages, and leave no consumer to wait for
            let (count, bytes, more) = self.fitting(max, fitting);
            fitting = (count, bytes);
            if count > 0 && !more {
                return Ok(self.give(count));
            }
            match (count, self.ready.front()) {
                (1.., Some(first)) => {
                    let deadline = first.at + linger;
                    match timeout_at(deadline, self.pull()).await {
                        Ok(pulled) => pulled?,
                        Err(_) => return Ok(self.give(count)),
                    }
                }
                _ => self.pull().await?,
            }
        }
    }

    fn give(&mut self, count: usize) -> Vec<Received> {
        let mut given = Vec::with_capacity(count);
        for Ready { received, .. } in self.ready.drain(..count) {
            self.ledger.give(received.tag);
            given.push(received);
        }
        given
    }

    async fn take_step(&self, step: Step) -> Result<(), QueueError> {
        let sent = async {
            match step {
                Step::AckThrough(tag) => self.channel.basic_ack(tag, BasicAckOptions { multiple: true }).await,
                Step::Ack(tag) => self.channel.basic_ack(tag, BasicAckOptions { multiple: false }).await,
                // Behind the dead queue is nothing: a letter rejected there is put back, never lost.
                Step::Reject(tag) => {
                    let requeue = self.queue == QueueName::Dead;
                    self.channel.basic_reject(tag, BasicRejectOptions { requeue }).await
                }
            }
        };
        bounded("settle messages", sent).await
    }

    async fn settle_on_channel(&mut self, settlements: &[(Tag, Settlement)]) -> Result<(), QueueError> {
        let complete = self.ledger.settle(settlements);
        let mut fates = Vec::with_capacity(complete.len());
        for message in complete {
            fates.push((Tag(message.delivery), self.fate(message).await));
        }
        for step in plan(self.ledger.messages(), &fates) {
            self.take_step(step).await?;
        }
        fates.iter().for_each(|(tag, _)| self.ledger.gone(tag.0));
        self.window.settled(fates.iter().filter(|(tag, _)| tag.0 > self.earlier).count());
        self.adapt().await
    }

    /// What becomes of a message whose events are all settled. Rejected ones of a group leave as letters of their own;
    /// where those are not confirmed, the whole group goes to the dead queue: what was acked of it is only seen again.
    async fn fate(&self, message: Complete) -> Settlement {
        match message.group {
            _ if message.rejected.is_empty() => Settlement::Ack,
            Some(group) if self.queue != QueueName::Dead => match self.send_letters(&group, &message.rejected).await {
                Ok(()) => Settlement::Ack,
                Err(why) => {
                    warn!(queue = %self.queue, why, "letters of single events cannot be sent: their whole group goes");
                    Settlement::Reject
                }
            },
            _ => Settlement::Reject,
        }
    }

    async fn send_letters(&self, group: &Group, rejected: &[usize]) -> Result<(), String> {
        let messages = group::read(&group.source, group.data.clone()).map_err(|e| e.to_string())?;
        let letters = messages.into_iter().enumerate().filter(|(position, _)| rejected.contains(position));
        let sent = letters.map(|(_, message)| self.publishing.publish(Work::Letter(Arc::new(message))));
        try_join_all(sent).await.map(|_| ()).map_err(|e| e.to_string())
    }

    fn check(&self) -> Result<(), QueueError> {
        self.broken.clone().map_or(Ok(()), |why| Err(QueueError::Away(why)))
    }

    /// After an error the channel's state is unknown: everything comes again, and only a new subscription helps.
    fn note<T>(&mut self, result: Result<T, QueueError>) -> Result<T, QueueError> {
        if let Err(QueueError::Away(why) | QueueError::Misconfigured(why)) = &result {
            self.broken = Some(why.clone());
            self.ready.clear();
        }
        result
    }
}

#[async_trait]
impl Subscription for RabbitSubscription {
    async fn receive(&mut self, max: usize, linger: Duration) -> Result<Vec<Received>, QueueError> {
        self.check()?;
        let gathered = self.gather(max.max(1), linger).await;
        self.note(gathered)
    }

    async fn settle(&mut self, settlements: Vec<(Tag, Settlement)>) -> Result<(), QueueError> {
        self.check()?;
        let settled = self.settle_on_channel(&settlements).await;
        self.note(settled)
    }

    async fn close(self: Box<Self>) {
        close_channel(&self.channel).await;
    }
}
