//! The role itself: `build` binds, `run_until_stopped` serves.

use crate::body::BodyLimits;
use crate::certificates::Certificates;
use crate::connection::{self, Shared};
use crate::health::IngestHealth;
use crate::intake::{Intake, SourceState};
use crate::rejections::{RejectedWriter, rejected_log};
use crate::report::LineBudget;
use crate::settings::{IngestError, IngestParts, IntakeSource, SourceKeys};
use crate::spooler::{SpoolWriter, spooler};
use std::collections::HashMap;
use std::future::pending;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::{MissedTickBehavior, interval, sleep};
use tokio_util::sync::CancellationToken;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};
use tracing::{info, warn};

/// How often log lines that were left out are counted.
const LINES_EVERY: Duration = Duration::from_secs(1);
/// How often room is made for connections that wait.
const ROOM_EVERY: Duration = Duration::from_millis(250);
/// The pause after the system refuses to accept a connection (out of file descriptors or memory).
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// The intake role, listening.
pub struct Ingest {
    listener: TcpListener,
    local_addr: SocketAddr,
    intake: Arc<Intake>,
    writer: Option<SpoolWriter>,
    rejected: Option<RejectedWriter>,
    health: IngestHealth,
}

/// Puts the role together and listens. Connections are accepted once it runs.
///
/// # Errors
/// When the address cannot be listened on, or a source's settings cannot be used.
pub async fn build(parts: IngestParts) -> Result<Ingest, IngestError> {
    let address = parts.settings.listen;
    let health = IngestHealth::of(Arc::clone(&parts.publisher), parts.spool.clone());
    let (intake, writer, rejected) = intake_of(parts)?;
    let failed = |cause| IngestError::Listen { address, cause };
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let local_addr = listener.local_addr().map_err(failed)?;
    Ok(Ingest { listener, local_addr, intake: Arc::new(intake), writer, rejected, health })
}

/// What requests need, and the writers of the spool and of the rejected log, which have to run.
pub(crate) fn intake_of(
    parts: IngestParts,
) -> Result<(Intake, Option<SpoolWriter>, Option<RejectedWriter>), IngestError> {
    let settings = parts.settings;
    let (spooler, writer) = parts.spool.map(|store| spooler(store, settings.spool_timeout)).unzip();
    let (rejected, rejected_writer) = parts.rejected.map(rejected_log).unzip();
    let body_limits = BodyLimits {
        max_body: settings.max_body,
        timeout: settings.body_timeout,
        in_hand: Arc::new(Semaphore::new(settings.max_bytes_in_hand.min(Semaphore::MAX_PERMITS))),
    };
    let intake = Intake {
        settings,
        sources: source_states(parts.sources)?,
        unknown: LineBudget::full(),
        publisher: parts.publisher,
        spooler,
        clock: parts.clock,
        entropy: parts.entropy,
        metrics: parts.metrics,
        rejected,
        certificates: Certificates::by(parts.outbound.clone(), parts.roots),
        outbound: parts.outbound,
        body_limits,
        tasks: TaskTracker::new(),
        abandon: CancellationToken::new(),
    };
    Ok((intake, writer, rejected_writer))
}

fn source_states(sources: Vec<IntakeSource>) -> Result<HashMap<String, Arc<SourceState>>, IngestError> {
    let mut states = HashMap::new();
    for source in sources {
        let source_name = source.model.name.to_string();
        let problem = if source.methods.is_empty() {
            Some("it takes no method; state `methods = [\"POST\"]`")
        } else if states.contains_key(&source_name) {
            Some("another source has this name; rename one of them")
        } else {
            None
        };
        if let Some(problem) = problem {
            return Err(IngestError::Source { source_name, problem: problem.to_owned() });
        }
        states.insert(source_name, Arc::new(SourceState::of(source)));
    }
    Ok(states)
}

impl Ingest {
    /// Where it listens: the port that was given out where port 0 was asked for.
    pub const fn local_addr(&self) -> SocketAddr {
        self.local_addr
    }

    /// Exchanges the keys of sources, also while the role runs.
    pub fn key_ring(&self) -> KeyRing {
        KeyRing(Arc::clone(&self.intake))
    }

    /// Answers for `/readyz`, also while the role runs.
    pub fn health(&self) -> IngestHealth {
        self.health.clone()
    }

    /// Serves until `soft` is cancelled: then no connection is accepted any more, what is in hand is finished, and
    /// connections end with their answer. `hard` drops everything at once; what was not answered is the provider's
    /// to send again.
    ///
    /// # Errors
    /// When a part of the role ends by itself.
    pub async fn run_until_stopped(self, soft: CancellationToken, hard: CancellationToken) -> Result<(), IngestError> {
        info!(target: "oncefold::ingest", address = %self.local_addr, "listening");
        let abandon = self.intake.abandon.clone();
        // Whichever way this future ends or is dropped, tasks it started end too.
        let _guard = abandon.clone().drop_guard();
        tokio::select! {
            biased;
            () = hard.cancelled() => Ok(()),
            result = self.serve(soft) => result,
        }
    }

    async fn serve(self, soft: CancellationToken) -> Result<(), IngestError> {
        let mut writer = self.writer.map(|writer| AbortOnDropHandle::new(tokio::spawn(writer.run())));
        // Nothing depends on it: it ends with the role, whatever is still unwritten.
        let _rejected = self.rejected.map(|writer| AbortOnDropHandle::new(tokio::spawn(writer.run())));
        let door = Door {
            listener: self.listener,
            slots: Arc::new(Semaphore::new(self.intake.settings.max_connections)),
            shared: Shared {
                intake: Arc::clone(&self.intake),
                http: connection::http(&self.intake.settings),
                soft: soft.clone(),
                pressure: Arc::new(Notify::new()),
            },
            intake: Arc::clone(&self.intake),
        };
        let in_hand = self.intake.tasks.clone();
        let work = async {
            tokio::select! {
                () = door.accept_all() => {}
                () = soft.cancelled() => {}
            }
            drop(door.listener);
            in_hand.close();
            in_hand.wait().await;
        };
        let result = tokio::select! {
            () = work => Ok(()),
            () = ended(writer.as_mut()) => Err(IngestError::TaskEnded("spool writer")),
        };
        self.intake.settle_lines();
        result
    }
}

/// Exchanges the keys of sources while the role runs. Cheap to clone.
#[derive(Clone)]
pub struct KeyRing(Arc<Intake>);

impl KeyRing {
    /// From now on deliveries of this source are judged by these keys; those in hand by the keys they began with.
    /// Whether there is such a source.
    pub fn exchange(&self, source: &str, keys: SourceKeys) -> bool {
        self.0.sources.get(source).is_some_and(|state| {
            state.exchange(keys);
            true
        })
    }
}

async fn ended(task: Option<&mut AbortOnDropHandle<()>>) {
    match task {
        Some(task) => drop(task.await),
        None => pending().await,
    }
}

/// Where connections come in.
struct Door {
    listener: TcpListener,
    slots: Arc<Semaphore>,
    shared: Shared,
    intake: Arc<Intake>,
}

impl Door {
    async fn accept_all(&self) {
        let mut lines = interval(LINES_EVERY);
        let mut room = interval(ROOM_EVERY);
        lines.set_missed_tick_behavior(MissedTickBehavior::Delay);
        room.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut slot = None;
        loop {
            tokio::select! {
                _ = lines.tick() => self.intake.settle_lines(),
                _ = room.tick(), if slot.is_none() && self.slots.available_permits() == 0 => self.shared.pressure.notify_waiters(),
                Ok(taken) = Arc::clone(&self.slots).acquire_owned(), if slot.is_none() => slot = Some(taken),
                accepted = self.listener.accept(), if slot.is_some() => match (accepted, slot.take()) {
                    (Ok((stream, _)), Some(slot)) => self.serve(stream, slot),
                    (Err(error), kept) => {
                        slot = kept;
                        self.refused_by_system(&error).await;
                    }
                    (Ok(_), None) => {}
                },
            }
        }
    }

    fn serve(&self, stream: TcpStream, slot: OwnedSemaphorePermit) {
        let (shared, abandon) = (self.shared.clone(), self.intake.abandon.clone());
        self.intake.tasks.spawn(async move {
            abandon.run_until_cancelled(connection::serve(stream, shared)).await;
            drop(slot);
        });
    }

    /// A connection that broke before it was accepted is nobody's loss; anything else means the system has no room.
    async fn refused_by_system(&self, error: &std::io::Error) {
        use std::io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
        if matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset) {
            return;
        }
        if self.intake.unknown.admits() {
            warn!(target: "oncefold::ingest", %error, "cannot accept connections; raise the limit of open files");
        }
        self.shared.pressure.notify_waiters();
        sleep(ACCEPT_PAUSE).await;
    }
}
