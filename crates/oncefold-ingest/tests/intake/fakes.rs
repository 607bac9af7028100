//! A queue and a spool that do what a test says, and remember what they were given.

use async_trait::async_trait;
use oncefold_core::queue::{PublishError, Publisher};
use oncefold_core::store::{ClaimSpooled, SpoolStore, Spooled, StoreError};
use oncefold_core::{Clock, Entropy, Message, Timestamp};
use std::future::pending;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use tokio::sync::Semaphore;

/// What a fake does when it is given something.
#[derive(Clone, Debug)]
pub enum Behaviour {
    Take,
    /// Takes, and remembers only how many.
    TakeAndForget,
    Fail,
    /// Refuses every batch that holds an event of this id.
    Refuse(&'static str),
    /// Takes once the test gives it a permit.
    Gate(Arc<Semaphore>),
    Hang,
    Panic,
}

#[derive(Debug)]
pub struct Fake {
    behaviour: Mutex<Behaviour>,
    taken: Mutex<Vec<Arc<Message>>>,
    batches: Mutex<Vec<usize>>,
    pub entered: AtomicUsize,
}

pub fn fake(behaviour: Behaviour) -> Arc<Fake> {
    let behaviour = Mutex::new(behaviour);
    Arc::new(Fake { behaviour, taken: Mutex::default(), batches: Mutex::default(), entered: AtomicUsize::new(0) })
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("no test panics while it holds this")
}

impl Fake {
    pub fn behaves(&self, behaviour: Behaviour) {
        *locked(&self.behaviour) = behaviour;
    }

    pub fn taken(&self) -> Vec<Arc<Message>> {
        locked(&self.taken).clone()
    }

    /// Sizes of what was given to it in one piece and taken.
    pub fn batches(&self) -> Vec<usize> {
        locked(&self.batches).clone()
    }

    /// Calls so far, done or not.
    pub fn entered(&self) -> usize {
        self.entered.load(Ordering::SeqCst)
    }

    async fn take(&self, messages: &[Arc<Message>]) -> Result<(), &'static str> {
        self.entered.fetch_add(1, Ordering::SeqCst);
        let behaviour = locked(&self.behaviour).clone();
        match behaviour {
            Behaviour::Fail => return Err("as the test wants it"),
            Behaviour::Refuse(id) if messages.iter().any(|m| m.event_id == id) => return Err("refused"),
            Behaviour::Gate(gate) => gate.acquire().await.expect("tests do not close gates").forget(),
            Behaviour::Hang => pending().await,
            Behaviour::Panic => panic!("as the test wants it"),
            Behaviour::Take | Behaviour::TakeAndForget | Behaviour::Refuse(_) => {}
        }
        locked(&self.batches).push(messages.len());
        if !matches!(*locked(&self.behaviour), Behaviour::TakeAndForget) {
            locked(&self.taken).extend(messages.iter().cloned());
        }
        Ok(())
    }
}

#[async_trait]
impl Publisher for Fake {
    async fn publish(&self, message: Arc<Message>) -> Result<(), PublishError> {
        self.take(&[message]).await.map_err(|e| PublishError::Away(e.to_owned()))
    }

    fn is_available(&self) -> bool {
        !matches!(*locked(&self.behaviour), Behaviour::Fail)
    }
}

#[async_trait]
impl SpoolStore for Fake {
    async fn spool(&self, messages: &[Arc<Message>]) -> Result<(), StoreError> {
        self.take(messages).await.map_err(|e| match e {
            "refused" => StoreError::Refused(e.to_owned()),
            _ => StoreError::Unavailable(e.to_owned()),
        })
    }

    async fn claim_spooled(&self, _claim: ClaimSpooled) -> Result<Vec<Spooled>, StoreError> {
        Ok(vec![])
    }

    async fn remove_spooled(&self, _sequences: &[i64]) -> Result<(), StoreError> {
        Ok(())
    }

    async fn spool_depth(&self) -> Result<u64, StoreError> {
        match *locked(&self.behaviour) {
            Behaviour::Fail => Err(StoreError::Unavailable("as the test wants it".to_owned())),
            _ => Ok(locked(&self.taken).len() as u64),
        }
    }
}

/// 2026-01-02T03:04:05Z.
pub const NOW_S: i64 = 1_767_323_045;

/// It is always [`NOW_S`].
pub struct StoppedClock;

impl Clock for StoppedClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(NOW_S * 1_000_000)
    }
}

/// Counts, so that no two ids are equal.
#[derive(Default)]
pub struct Counting(AtomicU64);

impl Entropy for Counting {
    fn fill(&self, bytes: &mut [u8]) {
        let count = self.0.fetch_add(1, Ordering::Relaxed).to_be_bytes();
        let tail = bytes.len().saturating_sub(count.len());
        bytes.fill(0xA5);
        bytes[tail..].copy_from_slice(&count);
    }
}
