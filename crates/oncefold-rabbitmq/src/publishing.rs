//! The connection that publishes, and nothing else: the broker may block it.

use crate::health::{Health, Phase};
use crate::lane::{Job, Lane, Tell, Work, lost};
use crate::reconnect::Pauses;
use crate::settings::RabbitSettings;
use crate::silence::{Silences, Way};
use crate::supervise::{Notice, Notices, Role};
use crate::topology::{Topology, bounded, open_channel};
use lapin::Connection;
use lapin::options::ConfirmSelectOptions;
use oncefold_core::queue::{PublishError, QueueError};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

/// Publishes that may wait for a place in flight on each lane.
const WAITING_MAX: usize = 512;

/// Probes without an answer before the connection is replaced.
const UNANSWERED_PROBES_MAX: u32 = 3;

/// The publishing half of the queue.
pub(crate) struct Publishing {
    pub(crate) health: Arc<Health>,
    silences: Arc<Silences>,
    pub(crate) topology: Arc<Topology>,
    pub(crate) confirm_timeout: Duration,
    pub(crate) channels: usize,
    pub(crate) group_max: usize,
    lanes: RwLock<Vec<mpsc::Sender<Job>>>,
    turn: AtomicUsize,
}

impl Publishing {
    pub(crate) fn over(topology: Arc<Topology>, settings: &RabbitSettings) -> Self {
        Self {
            health: Arc::new(Health::connecting()),
            silences: Arc::default(),
            topology,
            confirm_timeout: settings.confirm_timeout,
            channels: settings.publish_channels.max(1),
            group_max: settings.group_max.max(1),
            lanes: RwLock::default(),
            turn: AtomicUsize::new(0),
        }
    }

    /// Publishes an event or a letter.
    pub(crate) async fn publish(&self, work: Work) -> Result<(), PublishError> {
        self.health.check()?;
        let source = work.source();
        let way = source.as_ref().map_or(Ok(Way::Usual), |source| self.silences.check(source, Instant::now()))?;
        match timeout(self.confirm_timeout, self.send(work, way)).await {
            Ok(verdict) => verdict,
            Err(_) => {
                if source.is_none_or(|source| self.silences.timed_out(&source, Instant::now())) {
                    self.health.timed_out();
                }
                Err(PublishError::TimedOut(self.confirm_timeout))
            }
        }
    }

    async fn send(&self, work: Work, way: Way) -> Result<(), PublishError> {
        let lane = self.lane(way).ok_or_else(lost)?;
        let (verdict, answer) = oneshot::channel();
        lane.send(Job { work, verdict }).await.map_err(|_| lost())?;
        drop(lane); // else it would keep a closing lane waiting for us, and us for it
        answer.await.unwrap_or_else(|_| Err(lost()))
    }

    /// The last one is for trials, the others take turns.
    fn lane(&self, way: Way) -> Option<mpsc::Sender<Job>> {
        let lanes = self.lanes.read().unwrap_or_else(PoisonError::into_inner);
        let (trials, usual) = lanes.split_last()?;
        match way {
            Way::Trial => Some(trials.clone()),
            Way::Usual => usual.get(self.turn.fetch_add(1, Ordering::Relaxed).checked_rem(usual.len())?).cloned(),
        }
    }

    fn set_lanes(&self, lanes: Vec<mpsc::Sender<Job>>) {
        *self.lanes.write().unwrap_or_else(PoisonError::into_inner) = lanes;
    }

    async fn open_lanes(&self, connection: &Connection) -> Result<JoinSet<Result<(), String>>, QueueError> {
        let frame_max = match connection.configuration().frame_max() {
            0 => usize::MAX,
            bytes => usize::try_from(bytes).unwrap_or(usize::MAX),
        };
        let (mut running, mut senders) = (JoinSet::new(), Vec::new());
        for _ in 0..=self.channels {
            let channel = open_channel(connection).await?;
            bounded("switch confirms on", channel.confirm_select(ConfirmSelectOptions::default())).await?;
            let (sender, jobs) = mpsc::channel(WAITING_MAX);
            let tell =
                Tell { health: self.health.clone(), silences: self.silences.clone(), topology: self.topology.clone() };
            running.spawn(Lane::on(channel, frame_max, self.group_max, tell).run(jobs));
            senders.push(sender);
        }
        self.set_lanes(senders);
        Ok(running)
    }

    /// While the broker is silent, asks now and then whether it confirms again. The pauses start over only when events
    /// were confirmed in between: a broker that confirms probes alone is asked less and less. Returns where no answer
    /// comes: over a new connection others are served, if it is only this one's channels that hang.
    async fn probe(&self) -> String {
        let mut pauses = Pauses::from_the_start();
        let mut confirms = self.health.confirms();
        let mut unanswered = 0;
        loop {
            self.health.is_silent().await;
            if self.health.confirms() != confirms {
                confirms = self.health.confirms();
                pauses.reset();
            }
            sleep(pauses.next()).await;
            // An answer, also one that comes late, is noted by the lane.
            let answer = timeout(self.confirm_timeout, self.send(Work::Probe, Way::Usual)).await;
            unanswered = if matches!(answer, Ok(Ok(()))) { 0 } else { unanswered + 1 };
            if unanswered >= UNANSWERED_PROBES_MAX {
                return format!("{unanswered} probes in a row had no answer");
            }
        }
    }

    async fn follow(&self, notices: &mut Notices) -> String {
        loop {
            match notices.next().await {
                Notice::Blocked(why) => self.health.enter(Phase::Blocked(why)),
                Notice::Unblocked => self.health.enter(Phase::Ready),
                Notice::Lost(why) => return why,
            }
        }
    }
}

impl Role for Publishing {
    const NAME: &'static str = "publisher";

    async fn serve(&self, connection: &Arc<Connection>, stop: &CancellationToken) -> String {
        let mut notices = Notices::of(connection);
        match self.topology.declare_known(connection).await {
            Ok(()) => {}
            Err(QueueError::Misconfigured(text)) => tracing::error!("{text}"),
            Err(QueueError::Away(why)) => return why,
        }
        let mut lanes = match self.open_lanes(connection).await {
            Ok(lanes) => lanes,
            Err(error) => return error.to_string(),
        };
        self.health.enter(Phase::Ready);
        let why = tokio::select! {
            () = stop.cancelled() => {
                self.health.enter(Phase::Closed);
                self.set_lanes(Vec::new());
                let _ = timeout(self.confirm_timeout, async { while lanes.join_next().await.is_some() {} }).await;
                "it was closed".to_owned()
            }
            why = self.follow(&mut notices) => why,
            why = self.probe() => why,
            Some(ended) = lanes.join_next() => match ended {
                Ok(Ok(())) => "a channel ended".to_owned(),
                Ok(Err(why)) => why,
                Err(panicked) => panicked.to_string(),
            },
        };
        self.set_lanes(Vec::new());
        why
    }

    fn is_down(&self, why: &str) {
        self.health.enter(Phase::Down(why.to_owned()));
    }
}
