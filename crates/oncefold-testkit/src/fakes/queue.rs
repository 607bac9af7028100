//! A queue in memory, as faithful as the suite asks, with switches to fail.

use async_trait::async_trait;
use oncefold_core::limits::DELIVERY_LIMIT;
use oncefold_core::queue::{
    Consumers, Death, Prefetch, PublishError, Publisher, QueueAdmin, QueueError, QueueName, Received, Settlement,
    Subscription, Tag, Unreadable,
};
use oncefold_core::{Message, SourceName};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

#[derive(Clone)]
struct Held {
    message: Result<Message, Unreadable>,
    /// Times it was given out and came back.
    returns: u32,
    death: Option<Death>,
}

impl Held {
    fn bytes(&self) -> usize {
        self.message.as_ref().map_or(0, |message| message.body.len())
    }
}

#[derive(Default)]
struct State {
    queues: HashMap<QueueName, VecDeque<Held>>,
    away: bool,
    /// Grows when connections break: subscriptions of an older one are lost.
    connection: u64,
    publishes_fail: bool,
    published: u64,
    subscribed: HashMap<QueueName, u64>,
    /// Given out and not settled.
    out: HashMap<QueueName, usize>,
}

impl State {
    fn put_back(&mut self, queue: &QueueName, mut held: Held) {
        held.returns += 1;
        if held.returns > DELIVERY_LIMIT && *queue != QueueName::Dead {
            let letter = Held { returns: 0, death: Some(Death::DeliveryLimit), ..held };
            self.queues.entry(QueueName::Dead).or_default().push_back(letter);
        } else {
            self.queues.entry(queue.clone()).or_default().push_front(held);
        }
    }
}

#[derive(Default)]
struct Inner {
    state: Mutex<State>,
    changed: Notify,
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no test panics while it holds the queue")
    }
}

/// A queue in memory. Clones share it.
#[derive(Clone, Default)]
pub struct FakeQueue(Arc<Inner>);

impl FakeQueue {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock()
    }

    /// Breaks every connection and refuses new ones, or lets them be again.
    pub fn set_away(&self, away: bool) {
        let mut state = self.lock();
        state.away = away;
        state.connection += u64::from(away);
        drop(state);
        self.0.changed.notify_waiters();
    }

    /// Lets publishes time out without a trace, though the queue seems available.
    pub fn set_publishes_fail(&self, fail: bool) {
        self.lock().publishes_fail = fail;
    }

    /// Puts something there that is none of ours.
    pub fn put_foreign(&self, queue: QueueName, why: &str) {
        self.put_unreadable(queue, Unreadable::Foreign(why.to_owned()));
    }

    /// Puts something there that cannot be read.
    pub fn put_unreadable(&self, queue: QueueName, why: Unreadable) {
        let held = Held { message: Err(why), returns: 0, death: None };
        self.lock().queues.entry(queue).or_default().push_back(held);
        self.0.changed.notify_waiters();
    }

    /// Puts a letter on `oncefold.dead`.
    pub fn put_letter(&self, message: Message, death: Death) {
        let held = Held { message: Ok(message), returns: 0, death: Some(death) };
        self.lock().queues.entry(QueueName::Dead).or_default().push_back(held);
        self.0.changed.notify_waiters();
    }

    /// Messages waiting.
    pub fn depth(&self, queue: &QueueName) -> usize {
        self.lock().queues.get(queue).map_or(0, VecDeque::len)
    }

    /// Messages there, those given out and not settled too.
    pub fn contents(&self, queue: &QueueName) -> usize {
        let state = self.lock();
        state.queues.get(queue).map_or(0, VecDeque::len) + state.out.get(queue).copied().unwrap_or(0)
    }

    /// Confirmed publishes so far.
    pub fn published(&self) -> u64 {
        self.lock().published
    }

    /// Subscriptions to a queue so far.
    pub fn subscribed(&self, queue: &QueueName) -> u64 {
        self.lock().subscribed.get(queue).copied().unwrap_or(0)
    }

    /// How often the messages waiting there were given out and came back, at most.
    pub fn most_returns(&self, queue: &QueueName) -> u32 {
        self.lock().queues.get(queue).into_iter().flatten().map(|held| held.returns).max().unwrap_or(0)
    }
}

#[async_trait]
impl Publisher for FakeQueue {
    async fn publish(&self, message: Arc<Message>) -> Result<(), PublishError> {
        let mut state = self.lock();
        if state.away {
            return Err(PublishError::Away("switched off".to_owned()));
        }
        if state.publishes_fail {
            return Err(PublishError::TimedOut(Duration::from_secs(2)));
        }
        let queue = QueueName::Work(message.source.clone());
        state.published += 1;
        let held = Held { message: Ok(Message::clone(&message)), returns: 0, death: None };
        state.queues.entry(queue).or_default().push_back(held);
        drop(state);
        self.0.changed.notify_waiters();
        Ok(())
    }

    fn is_available(&self) -> bool {
        !self.lock().away
    }
}

#[async_trait]
impl Consumers for FakeQueue {
    async fn subscribe(&self, queue: QueueName, prefetch: Prefetch) -> Result<Box<dyn Subscription>, QueueError> {
        let mut state = self.lock();
        if state.away {
            return Err(QueueError::Away("switched off".to_owned()));
        }
        *state.subscribed.entry(queue.clone()).or_default() += 1;
        Ok(Box::new(FakeSubscription {
            inner: Arc::clone(&self.0),
            queue,
            prefetch,
            connection: state.connection,
            unsettled: BTreeMap::new(),
            ready: VecDeque::new(),
            next_tag: 1,
        }))
    }
}

#[async_trait]
impl QueueAdmin for FakeQueue {
    async fn declare(&self, _sources: &[SourceName]) -> Result<(), QueueError> {
        if self.lock().away { Err(QueueError::Away("switched off".to_owned())) } else { Ok(()) }
    }

    async fn depths(&self, sources: &[SourceName]) -> Result<Vec<(QueueName, u64)>, QueueError> {
        if self.lock().away {
            return Err(QueueError::Away("switched off".to_owned()));
        }
        let names = sources.iter().cloned().map(QueueName::Work).chain([QueueName::Dead]);
        Ok(names.map(|name| (name.clone(), self.depth(&name) as u64)).collect())
    }
}

struct FakeSubscription {
    inner: Arc<Inner>,
    queue: QueueName,
    prefetch: Prefetch,
    connection: u64,
    /// Given out or ready, by tag.
    unsettled: BTreeMap<Tag, Held>,
    /// Taken from the queue, not given yet.
    ready: VecDeque<Tag>,
    next_tag: u64,
}

impl FakeSubscription {
    fn is_connected(&self, state: &State) -> bool {
        !state.away && state.connection == self.connection
    }

    /// Takes what prefetch and `max` allow.
    fn take(&mut self, max: usize) -> Result<(), QueueError> {
        let inner = Arc::clone(&self.inner);
        let mut state = inner.lock();
        if !self.is_connected(&state) {
            return Err(QueueError::Away("the connection broke".to_owned()));
        }
        let mut taken = 0;
        let waiting = state.queues.entry(self.queue.clone()).or_default();
        while self.ready.len() < max && self.unsettled.len() < usize::from(self.prefetch.messages) {
            let bytes: usize = self.unsettled.values().map(Held::bytes).sum();
            let fits = |held: &Held| self.unsettled.is_empty() || bytes + held.bytes() <= self.prefetch.bytes;
            if !waiting.front().is_some_and(fits) {
                break;
            }
            let Some(held) = waiting.pop_front() else { break };
            taken += 1;
            let tag = Tag(self.next_tag);
            self.next_tag += 1;
            self.unsettled.insert(tag, held);
            self.ready.push_back(tag);
        }
        *state.out.entry(self.queue.clone()).or_default() += taken;
        Ok(())
    }

    fn give(&mut self) -> Vec<Received> {
        let tags = std::mem::take(&mut self.ready);
        let given = tags.into_iter().filter_map(|tag| {
            let held = self.unsettled.get(&tag)?;
            Some(Received { tag, message: held.message.clone(), death: held.death })
        });
        given.collect()
    }
}

#[async_trait]
impl Subscription for FakeSubscription {
    async fn receive(&mut self, max: usize, linger: Duration) -> Result<Vec<Received>, QueueError> {
        let mut until: Option<Instant> = None;
        loop {
            let inner = Arc::clone(&self.inner);
            let changed = inner.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            self.take(max)?;
            if self.ready.len() >= max {
                return Ok(self.give());
            }
            if !self.ready.is_empty() && until.is_none() {
                until = Some(Instant::now() + linger);
            }
            match until {
                None => changed.await,
                Some(until) => {
                    if tokio::time::timeout_at(until, changed).await.is_err() {
                        return Ok(self.give());
                    }
                }
            }
        }
    }

    async fn settle(&mut self, settlements: Vec<(Tag, Settlement)>) -> Result<(), QueueError> {
        let inner = Arc::clone(&self.inner);
        let mut state = inner.lock();
        if !self.is_connected(&state) {
            return Err(QueueError::Away("the connection broke".to_owned()));
        }
        for (tag, settlement) in settlements {
            let held = self.unsettled.remove(&tag).expect("a tag is settled once");
            *state.out.entry(self.queue.clone()).or_default() -= 1;
            if settlement == Settlement::Reject {
                let letter = Held { returns: 0, death: Some(Death::Rejected), ..held };
                state.queues.entry(QueueName::Dead).or_default().push_back(letter);
            }
        }
        drop(state);
        inner.changed.notify_waiters();
        Ok(())
    }

    async fn close(self: Box<Self>) {}
}

impl Drop for FakeSubscription {
    fn drop(&mut self) {
        let mut state = self.inner.lock();
        *state.out.entry(self.queue.clone()).or_default() -= self.unsettled.len();
        for (_, held) in std::mem::take(&mut self.unsettled).into_iter().rev() {
            state.put_back(&self.queue, held);
        }
        drop(state);
        self.inner.changed.notify_waiters();
    }
}
