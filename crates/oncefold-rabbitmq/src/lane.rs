//! A lane: one channel, and the one task that does everything on it.
//!
//! Two faults of the client (lapin 4.12.3) shape this. Publishes that enter a channel from several tasks get each
//! other's confirms; so one task starts them all. And a returned message (no such queue) is handed to whichever confirm
//! comes next, while the publish that was returned looks confirmed; so verdicts are given only once every confirm that
//! has arrived is in hand, and returns are matched by queue and message id. The order holds: the broker sends a return before its
//! confirm, so whoever took the return was completed before the publish that it belongs to.

use crate::grouping::{Entry, Grouping};
use crate::health::Health;
use crate::silence::Silences;
use crate::topology::Topology;
use crate::wire::{self, Outgoing};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use lapin::options::BasicPublishOptions;
use lapin::types::ShortString;
use lapin::{BasicProperties, Channel, Confirmation};
use oncefold_core::queue::PublishError;
use oncefold_core::{Message, SourceName};
use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::time::sleep;

/// Most unconfirmed events of a lane: what we and the client buffer while the broker takes nothing.
const IN_FLIGHT_MAX: usize = 512;
/// Most bytes of bodies among them; one event always fits.
const IN_FLIGHT_BYTES_MAX: usize = 32 << 20;
/// While there is no room, events that nobody waits for any more are looked for so often.
const PURGE_PAUSE: Duration = Duration::from_millis(100);
/// Where probes go: no queue has that name, so the broker confirms and drops them.
const PROBE_KEY: &str = "oncefold.probe";

/// What is to be published.
pub(crate) enum Work {
    Event(Arc<Message>),
    /// The dead letter of an event, for the dead queue.
    Letter(Arc<Message>),
    /// Nothing: only to see whether it is confirmed.
    Probe,
}

impl Work {
    /// Of an event.
    pub(crate) fn source(&self) -> Option<SourceName> {
        match self {
            Self::Event(message) => Some(message.source.clone()),
            Self::Letter(_) | Self::Probe => None,
        }
    }
}

/// Where the verdict of an event goes.
pub(crate) type Verdict = oneshot::Sender<Result<(), PublishError>>;

/// A publish, and where its verdict goes.
pub(crate) struct Job {
    pub(crate) work: Work,
    pub(crate) verdict: Verdict,
}

/// A message that was started.
struct Started {
    /// Whose place it takes; none for letters and probes.
    source: Option<SourceName>,
    /// Of its events, or of the probe.
    verdicts: Vec<Verdict>,
    bytes: usize,
}

/// A message's queue and its id, which is empty for a probe: an event's letter has the id that its group may have too.
type Address = (ShortString, ShortString);

struct Done {
    started: Started,
    address: Address,
    confirmation: lapin::Result<Confirmation>,
}

/// What became of a message.
enum Fate {
    Confirmed,
    Refused(&'static str),
    Lost,
}

impl Fate {
    fn verdict(&self) -> Result<(), PublishError> {
        match self {
            Self::Confirmed => Ok(()),
            Self::Refused(why) => Err(PublishError::Refused((*why).to_owned())),
            Self::Lost => Err(lost()),
        }
    }
}

type Pending = Pin<Box<dyn Future<Output = Done> + Send>>;

/// What all lanes tell.
pub(crate) struct Tell {
    pub(crate) health: Arc<Health>,
    pub(crate) silences: Arc<Silences>,
    pub(crate) topology: Arc<Topology>,
}

/// See the module.
pub(crate) struct Lane {
    channel: Channel,
    frame_max: usize,
    tell: Tell,
    grouping: Grouping<Verdict>,
    pending: FuturesUnordered<Pending>,
    /// Events and bytes of bodies among them.
    pending_events: usize,
    pending_bytes: usize,
    /// Returned messages whose confirm has not come yet.
    returned: HashMap<Address, usize>,
}

impl Lane {
    /// `channel` must be in confirm mode; `frame_max` is its connection's; a message takes at most `group_max` events.
    pub(crate) fn on(channel: Channel, frame_max: usize, group_max: usize, tell: Tell) -> Self {
        Self {
            channel,
            frame_max,
            tell,
            grouping: Grouping::of(group_max),
            pending: FuturesUnordered::new(),
            pending_events: 0,
            pending_bytes: 0,
            returned: HashMap::new(),
        }
    }

    /// Publishes until the other end of `jobs` is gone and everything is confirmed, or the channel fails; the error says
    /// why. Jobs that get no verdict are dropped.
    pub(crate) async fn run(mut self, mut jobs: mpsc::Receiver<Job>) -> Result<(), String> {
        let mut open = true;
        while open || !self.pending.is_empty() {
            tokio::select! {
                biased;
                Some(done) = self.pending.next() => self.settle(done)?,
                () = sleep(PURGE_PAUSE), if self.grouping.waiting() > 0 && !self.has_room() => {
                    self.grouping.purge(|verdict| !verdict.is_closed());
                }
                job = jobs.recv(), if open && self.has_room() => match job {
                    Some(job) => {
                        self.start(job);
                        while self.has_room() && let Ok(job) = jobs.try_recv() {
                            self.start(job);
                        }
                    }
                    None => open = false,
                },
            }
        }
        Ok(())
    }

    fn has_room(&self) -> bool {
        let events = self.pending_events + self.grouping.waiting();
        let bytes = self.pending_bytes + self.grouping.waiting_bytes();
        events < IN_FLIGHT_MAX && (bytes < IN_FLIGHT_BYTES_MAX || events == 0)
    }

    fn start(&mut self, job: Job) {
        if job.verdict.is_closed() {
            return; // nobody waits any more: it went elsewhere
        }
        let (encoded, verdict) = match job.work {
            Work::Event(message) => {
                if let Some(entry) = self.grouping.admit(Entry { message, verdict: job.verdict }) {
                    self.start_events(vec![entry]);
                }
                return;
            }
            Work::Letter(message) => (wire::encode_letter(message, self.frame_max).map(Some), job.verdict),
            Work::Probe => (Ok(None), job.verdict),
        };
        match encoded {
            Ok(outgoing) => self.send(outgoing, None, vec![verdict]),
            Err(refused) => drop(verdict.send(Err(refused))), // fails only where nobody waits
        }
    }

    /// Publishes these events of one source as one message, and what may go in its place where it cannot be written.
    fn start_events(&mut self, mut entries: Vec<Entry<Verdict>>) {
        while let Some(source) = entries.first().map(|entry| entry.message.source.clone()) {
            let written = match entries.as_slice() {
                [entry] => wire::encode(Arc::clone(&entry.message), self.frame_max).map(Some),
                entries => Ok(wire::encode_group(entries.iter().map(|entry| &*entry.message))),
            };
            let verdicts = entries.into_iter().map(|entry| entry.verdict);
            match written {
                Ok(outgoing) => return self.send(outgoing, Some(source), verdicts.collect()),
                Err(refused) => {
                    let mut refused = Some(refused); // of one event: a group is always written
                    verdicts.for_each(|verdict| drop(refused.take().map(|refused| verdict.send(Err(refused)))));
                    entries = self.grouping.settled(&source, |verdict| !verdict.is_closed());
                }
            }
        }
    }

    fn send(&mut self, outgoing: Option<Outgoing>, source: Option<SourceName>, verdicts: Vec<Verdict>) {
        let bytes = outgoing.as_ref().map_or(0, |outgoing| outgoing.body.bytes().len());
        self.pending_events += verdicts.len();
        self.pending_bytes += bytes;
        let started = Started { source, verdicts, bytes };
        // Its first poll, by this task, takes the delivery tag and queues the frames in one go.
        self.pending.push(Box::pin(publish(self.channel.clone(), outgoing, started)));
    }

    /// Gives verdicts to `first` and all that are complete with it, and starts what waited for them.
    fn settle(&mut self, first: Done) -> Result<(), String> {
        let mut done = vec![first];
        drain(&mut self.pending, &mut done);
        for returned in done.iter_mut().filter_map(|done| take_returned(&mut done.confirmation)) {
            *self.returned.entry(returned).or_default() += 1;
            self.tell.topology.missing.notify_one();
        }
        let (mut confirmed, mut broken, mut places) = (0, None, vec![]);
        for Done { started, address, confirmation } in done {
            self.pending_events -= started.verdicts.len();
            self.pending_bytes -= started.bytes;
            let fate = match confirmation {
                Ok(_) if self.was_returned(&address) => Fate::Refused("its work queue does not exist"),
                Ok(Confirmation::Ack(_)) => {
                    let is_probe = address.1.as_str().is_empty();
                    confirmed += if is_probe { 0 } else { started.verdicts.len() as u64 };
                    Fate::Confirmed
                }
                Ok(Confirmation::Nack(_)) => Fate::Refused("the broker said no (nack)"),
                Ok(Confirmation::NotRequested) => Fate::Refused("confirms are off"),
                Err(error) => {
                    broken.get_or_insert(error.to_string());
                    Fate::Lost
                }
            };
            for verdict in started.verdicts {
                let _ = verdict.send(fate.verdict()); // fails where the wait was given up
            }
            if let (Some(source), Fate::Confirmed) = (&started.source, &fate) {
                self.tell.silences.confirmed(source);
            }
            places.extend(started.source);
        }
        if self.pending.is_empty() {
            self.returned.clear();
        }
        if let Some(why) = broken {
            return Err(why);
        }
        if confirmed > 0 {
            self.tell.health.confirmed(confirmed)
        } else {
            self.tell.health.heard()
        }
        for source in places {
            let entries = self.grouping.settled(&source, |verdict| !verdict.is_closed());
            self.start_events(entries);
        }
        Ok(())
    }

    fn was_returned(&mut self, address: &Address) -> bool {
        let Some(count) = self.returned.get_mut(address) else { return false };
        *count -= 1;
        if *count == 0 {
            self.returned.remove(address);
        }
        true
    }
}

/// Takes the outputs of all futures that are complete by now.
fn drain<F: Future>(pending: &mut FuturesUnordered<F>, done: &mut Vec<F::Output>) {
    let woken = Arc::new(Woken::default());
    let waker = Waker::from(woken.clone());
    let mut context = Context::from_waker(&waker);
    loop {
        match pending.poll_next_unpin(&mut context) {
            Poll::Ready(Some(one)) => done.push(one),
            Poll::Ready(None) => break,
            // The set pauses now and then with work left; it then wakes its waker.
            Poll::Pending if woken.0.swap(false, Ordering::AcqRel) => {}
            Poll::Pending => break,
        }
    }
}

#[derive(Default)]
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Release);
    }
}

/// The verdict of a publish whose connection broke.
pub(crate) fn lost() -> PublishError {
    PublishError::Away("the connection broke before the confirm".to_owned())
}

async fn publish(channel: Channel, outgoing: Option<Outgoing>, started: Started) -> Done {
    let (queue, properties, bytes, mandatory) = match &outgoing {
        Some(outgoing) => (outgoing.queue.clone(), outgoing.properties.clone(), outgoing.body.bytes(), true),
        None => (PROBE_KEY.into(), BasicProperties::default(), &[][..], false),
    };
    let address = (queue.clone(), properties.message_id().clone().unwrap_or_default());
    let options = BasicPublishOptions { mandatory, ..BasicPublishOptions::default() };
    let confirmation = match channel.basic_publish("".into(), queue, options, bytes, properties).await {
        Ok(confirm) => confirm.await,
        Err(error) => Err(error),
    };
    Done { started, address, confirmation }
}

/// Which message came back with this confirmation, whichever publish it belongs to.
fn take_returned(confirmation: &mut lapin::Result<Confirmation>) -> Option<Address> {
    match confirmation {
        Ok(Confirmation::Ack(returned) | Confirmation::Nack(returned)) => {
            let delivery = returned.take()?.delivery;
            let message_id = delivery.properties.message_id().clone()?;
            Some((delivery.routing_key, message_id))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Complete when polled again after it was woken, as a confirm that came while others were looked at.
    async fn woken_twice(n: usize) -> usize {
        tokio::task::yield_now().await;
        tokio::task::yield_now().await;
        n
    }

    #[test]
    fn draining_takes_all_that_is_complete_and_leaves_the_rest() {
        let mut pending = FuturesUnordered::new();
        pending.push(Box::pin(std::future::pending()) as Pin<Box<dyn Future<Output = usize>>>);
        (0..300).for_each(|n| pending.push(Box::pin(woken_twice(n))));
        let mut done = Vec::new();
        drain(&mut pending, &mut done);
        done.sort_unstable();
        assert_eq!(done, (0..300).collect::<Vec<_>>());
        assert_eq!(pending.len(), 1);
    }
}
