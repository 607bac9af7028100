//! Building and running the role.

use crate::consumer::Consumer;
use crate::context::Context;
use crate::duties::gauges::GaugesDuty;
use crate::duties::pruner::Pruner;
use crate::duties::recorder::Recorder;
use crate::duties::relay::Relay;
use crate::duties::scheduler::Scheduler;
use crate::duties::{self, Duty};
use crate::error::WorkerError;
use crate::gate::{self, Gate};
use crate::health::Health;
use crate::settings::WorkerSettings;
use oncefold_core::prepare::Preparer;
use oncefold_core::queue::{Prefetch, Queue};
use oncefold_core::store::{Rule, RuleConflict, SpoolStore, Store, StoreError};
use oncefold_core::{Clock, Entropy, Source, SourceName};
use oncefold_telemetry::Metrics;
use std::collections::{BTreeSet, HashMap};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::task::{Id, JoinError, JoinSet};
use tokio_util::sync::CancellationToken;
use tracing::{error, info};

/// How long the other tasks may finish what they have in hand after one died.
const LAST_BATCH: Duration = Duration::from_secs(5);
/// Times the start is tried against a store that asks to do it again.
const START_TRIES: u32 = 5;

/// What a worker is made of.
pub struct WorkerParts {
    /// How it works.
    pub settings: WorkerSettings,
    /// Every configured source.
    pub sources: Vec<Arc<Source>>,
    /// The store.
    pub store: Arc<dyn Store>,
    /// The queue.
    pub queue: Arc<dyn Queue>,
    /// The spool, which only a store beside a broker has.
    pub spool: Option<Arc<dyn SpoolStore>>,
    /// The present moment.
    pub clock: Arc<dyn Clock>,
    /// Randomness, for jitter.
    pub entropy: Arc<dyn Entropy>,
    /// Where it counts.
    pub metrics: Arc<Metrics>,
}

/// A worker that is ready to run.
pub struct Worker {
    ctx: Arc<Context>,
    consumed: Vec<SourceName>,
}

/// Registers sources and rules with the store, and prepares the worker.
///
/// # Errors
/// When the config does not fit the store, or the store cannot be used.
pub async fn build(parts: WorkerParts) -> Result<Worker, WorkerError> {
    let WorkerParts { settings, sources, store, queue, spool, clock, entropy, metrics } = parts;
    let rules_version = register(store.as_ref(), &sources, clock.as_ref()).await?;
    store.prepare_days(clock.now()).await?;
    let configured = sources.iter().map(|source| source.name.clone());
    let all: BTreeSet<SourceName> = store.known_sources().await?.into_iter().chain(configured).collect();
    let consumed = chosen(&settings, all)?;
    let health = Arc::new(Health::default());
    for source in &consumed {
        health.fail(&Consumer::part(source), "not consuming yet");
    }
    let sources =
        sources.into_iter().map(|source| (source.name.clone(), Preparer::of(source))).collect::<HashMap<_, _>>();
    let gate = Gate::default();
    let writing = Semaphore::new(settings.writers_max.max(1));
    let ctx = Context {
        settings,
        sources,
        rules_version,
        store,
        queue,
        spool,
        clock,
        entropy,
        metrics,
        gate,
        writing,
        health,
    };
    Ok(Worker { ctx: Arc::new(ctx), consumed })
}

async fn register(store: &dyn Store, sources: &[Arc<Source>], clock: &dyn Clock) -> Result<i64, WorkerError> {
    let names: Vec<SourceName> = sources.iter().map(|source| source.name.clone()).collect();
    let rules: Vec<Rule> = sources.iter().flat_map(|source| rules_of(source)).collect();
    let mut tries = 1;
    loop {
        match store.register(&names, &rules, clock.now()).await {
            Ok(version) => return Ok(version),
            Err(RuleConflict::Store(StoreError::Conflict(_))) if tries < START_TRIES => tries += 1,
            Err(RuleConflict::Store(e)) => return Err(e.into()),
            Err(conflict) => return Err(WorkerError::Rules(conflict)),
        }
    }
}

fn rules_of(source: &Source) -> impl Iterator<Item = Rule> {
    source.projections.iter().map(|projection| Rule {
        source: source.name.clone(),
        projection: projection.name.clone(),
        epoch: projection.epoch,
        fingerprint: projection.fingerprint(&source.id),
    })
}

fn chosen(settings: &WorkerSettings, all: BTreeSet<SourceName>) -> Result<Vec<SourceName>, WorkerError> {
    let Some(only) = &settings.only_sources else { return Ok(all.into_iter().collect()) };
    match only.iter().find(|name| !all.contains(*name)) {
        Some(unknown) => Err(WorkerError::NoSuchSource(unknown.to_string())),
        None => Ok(only.iter().cloned().collect::<BTreeSet<_>>().into_iter().collect()),
    }
}

type Ended = Result<(), WorkerError>;

/// The role's tasks. Each is dropped where it stands when `hard` comes.
struct Tasks {
    running: JoinSet<Ended>,
    names: HashMap<Id, String>,
    hard: CancellationToken,
}

impl Tasks {
    fn start(&mut self, name: impl Into<String>, task: impl Future<Output = Ended> + Send + 'static) {
        let hard = self.hard.clone();
        let handle = self.running.spawn(async move {
            tokio::select! {
                biased;
                () = hard.cancelled() => Ok(()),
                ended = task => ended,
            }
        });
        self.names.insert(handle.id(), name.into());
    }

    fn start_duty(&mut self, ctx: &Arc<Context>, stop: &CancellationToken, duty: impl Duty + 'static) {
        let (ctx, stop) = (Arc::clone(ctx), stop.clone());
        self.start(duty.name(), async move {
            duties::run(&ctx, &stop, duty).await;
            Ok(())
        });
    }

    /// How the next task ended; nothing once all have.
    async fn next(&mut self, stop: &CancellationToken) -> Option<Ended> {
        let joined = self.running.join_next_with_id().await?;
        let name = |id: Id| self.names.get(&id).cloned().unwrap_or_default();
        Some(match joined {
            Ok((_, Err(e))) => Err(e),
            Ok((_, Ok(()))) if stop.is_cancelled() || self.hard.is_cancelled() => Ok(()),
            Ok((id, Ok(()))) => Err(WorkerError::TaskEnded(name(id))),
            Err(e) => Err(WorkerError::TaskDied { task: name(e.id()), cause: cause(e) }),
        })
    }
}

fn cause(e: JoinError) -> String {
    if !e.is_panic() {
        return "it was cancelled".to_owned();
    }
    let panic = e.into_panic();
    let text =
        panic.downcast_ref::<&str>().map(ToString::to_string).or_else(|| panic.downcast_ref::<String>().cloned());
    text.unwrap_or_else(|| "it panicked".to_owned())
}

impl Worker {
    /// Whether it consumes, or why not; for `/readyz`.
    pub fn health(&self) -> Arc<Health> {
        Arc::clone(&self.ctx.health)
    }

    /// Works until `soft` asks to finish what is in hand and stop, or `hard` to stop where it stands. What is
    /// unsettled then goes back to the queue; a stop is never a failed attempt.
    ///
    /// # Errors
    /// When a task of the role died or must not go on; the others have stopped by then.
    pub async fn run_until_stopped(self, soft: CancellationToken, hard: CancellationToken) -> Result<(), WorkerError> {
        let stop = soft.child_token();
        let mut tasks = self.start(&stop, hard);
        info!(sources = self.consumed.len(), holder = self.ctx.settings.holder, "the worker runs");
        let mut result = Ok(());
        while let Some(ended) = tasks.next(&stop).await {
            if let Err(e) = ended {
                error!(error = %e, "the worker stops");
                stop.cancel();
                result = Err(e);
                break;
            }
        }
        let rest = async { while tasks.next(&stop).await.is_some() {} };
        let _ = tokio::time::timeout(LAST_BATCH, rest).await;
        result
    }

    fn start(&self, stop: &CancellationToken, hard: CancellationToken) -> Tasks {
        let ctx = &self.ctx;
        let pace = ctx.settings.pace;
        let mut tasks = Tasks { running: JoinSet::new(), names: HashMap::new(), hard };
        let (probed, probe_stop) = (Arc::clone(ctx), stop.clone());
        tasks.start("probe", async move {
            gate::probe(&probed, &probe_stop).await;
            Ok(())
        });
        let prefetch = self.prefetch();
        for source in &self.consumed {
            let consumer = Consumer { ctx: Arc::clone(ctx), source: source.clone(), prefetch, soft: stop.clone() };
            tasks.start(format!("the consumer of {source}"), consumer.run());
        }
        tasks.start("recorder", Recorder { ctx: Arc::clone(ctx), soft: stop.clone() }.run());
        tasks.start_duty(ctx, stop, Scheduler { interval: pace.scheduler });
        tasks.start_duty(ctx, stop, GaugesDuty { interval: pace.gauges });
        tasks.start_duty(ctx, stop, Pruner::default());
        if let Some(spool) = &ctx.spool {
            tasks.start_duty(ctx, stop, Relay { interval: pace.relay, spool: Arc::clone(spool) });
        }
        tasks
    }

    /// The bytes are a bound of the whole worker, so that many sources do not multiply its memory.
    fn prefetch(&self) -> Prefetch {
        let settings = &self.ctx.settings;
        Prefetch { messages: settings.prefetch, bytes: settings.prefetch_bytes / self.consumed.len().max(1) }
    }
}
