//! A consumer on a channel of its own.

use crate::consuming::close_channel;
use crate::prefetch::Window;
use crate::settling::{Step, plan};
use crate::topology::bounded;
use crate::wire;
use async_trait::async_trait;
use futures_util::{StreamExt, TryStreamExt};
use lapin::message::Delivery;
use lapin::options::{BasicAckOptions, BasicCancelOptions, BasicConsumeOptions, BasicQosOptions, BasicRejectOptions};
use lapin::types::FieldTable;
use lapin::{Channel, Consumer};
use oncefold_core::queue::{Prefetch, QueueError, QueueName, Received, Settlement, Subscription, Tag};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout_at};

/// A message that is here and was not given yet.
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
    /// Given and not settled: bytes by delivery tag.
    unsettled: BTreeMap<u64, usize>,
    unsettled_bytes: usize,
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
    pub(crate) async fn start(channel: Channel, queue: QueueName, prefetch: Prefetch) -> Result<Self, QueueError> {
        let mut subscription = Self {
            queue,
            channel,
            consumer: None,
            window: Window::within(prefetch),
            bytes_max: prefetch.bytes,
            ready: VecDeque::new(),
            unsettled: BTreeMap::new(),
            unsettled_bytes: 0,
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
                let held = self.unsettled.len() + self.ready.len();
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
        let (message, death) = wire::read(delivery);
        self.latest = self.latest.max(tag);
        self.window.observe(bytes);
        let received = Received { tag: Tag(tag), message, death };
        self.ready.push_back(Ready { received, bytes, at: Instant::now() });
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
            let held = self.unsettled_bytes + bytes;
            if held + next.bytes > self.bytes_max && (count > 0 || !self.unsettled.is_empty()) {
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
        for Ready { received, bytes, .. } in self.ready.drain(..count) {
            self.unsettled.insert(received.tag.0, bytes);
            self.unsettled_bytes += bytes;
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
        for step in plan(&self.unsettled, settlements) {
            self.take_step(step).await?;
        }
        let mut of_this_consumer = 0;
        for (tag, _) in settlements {
            if let Some(bytes) = self.unsettled.remove(&tag.0) {
                self.unsettled_bytes -= bytes;
                of_this_consumer += usize::from(tag.0 > self.earlier);
            }
        }
        self.window.settled(of_this_consumer);
        self.adapt().await
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
