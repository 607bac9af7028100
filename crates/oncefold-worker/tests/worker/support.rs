use oncefold_core::glob::Glob;
use oncefold_core::locator::Locator;
use oncefold_core::model::{IdRule, Projection, RankRule, StateRule};
use oncefold_core::queue::{Publisher, QueueName};
use oncefold_core::store::EventRecord;
use oncefold_core::version::VersionRule;
use oncefold_core::{Clock, EntityKind, EventStatus, Facts, Message, Source};
use oncefold_telemetry::Metrics;
use oncefold_testkit::builders;
use oncefold_testkit::fakes::{FakeQueue, FakeStore, SeededEntropy, TokioClock};
use oncefold_worker::{Health, WorkerError, WorkerParts, WorkerSettings, build};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// A trace id that no other text holds.
pub const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

fn at(text: &str) -> Locator {
    Locator::parse(text).unwrap()
}

/// `order.*` changes `order` under `/order`, versioned by `/v`; `order.deleted` deletes; other types are ignored.
pub fn source(name: &str) -> Source {
    Source {
        name: builders::source(name),
        id: IdRule::Parts(vec![at("/id")]),
        event_type: at("/type"),
        format: oncefold_core::model::BodyFormat::Json,
        projections: vec![Projection {
            name: "order".into(),
            on: vec![Glob::parse("order.*")],
            entity: EntityKind::parse("order").unwrap(),
            key: vec![at("/order")],
            version: vec![VersionRule::At { at: at("/v"), kind: None, zone: None }],
            rank: RankRule::None,
            state: StateRule::Whole,
            delete_on: vec![Glob::parse("order.deleted")],
            delete_version: vec![],
            epoch: 1,
        }],
    }
}

/// An event of the world's source `shop`.
pub fn event(id: &str, order: &str, version: u64) -> Message {
    let body = format!(r#"{{"id":"{id}","type":"order.updated","order":"{order}","v":{version}}}"#);
    message("shop", id, body)
}

pub fn message(source: &str, id: &str, body: String) -> Message {
    let facts = Facts { trace_id: TRACE.to_owned(), ..Facts::default() };
    builders::message(source, id, body).facts(&facts).build()
}

pub fn work_queue() -> QueueName {
    QueueName::Work(builders::source("shop"))
}

/// A store and a queue, with as many workers as a test starts.
pub struct World {
    pub store: FakeStore,
    pub queue: FakeQueue,
    pub clock: TokioClock,
    pub sources: Vec<Source>,
    pub settings: WorkerSettings,
    pub with_spool: bool,
}

impl World {
    /// An empty store and queue, the source `shop`.
    pub fn empty() -> Self {
        Self {
            store: FakeStore::default(),
            queue: FakeQueue::default(),
            clock: TokioClock::start(),
            sources: vec![source("shop")],
            settings: WorkerSettings::defaults("worker-1".to_owned()),
            with_spool: true,
        }
    }

    pub fn parts(&self, holder: &str, metrics: Arc<Metrics>) -> WorkerParts {
        WorkerParts {
            settings: WorkerSettings { holder: holder.to_owned(), ..self.settings.clone() },
            sources: self.sources.iter().cloned().map(Arc::new).collect(),
            store: Arc::new(self.store.clone()),
            queue: Arc::new(self.queue.clone()),
            spool: self.with_spool.then(|| Arc::new(self.store.clone()) as _),
            clock: Arc::new(self.clock),
            entropy: Arc::new(SeededEntropy::of(holder.bytes().map(u64::from).sum())),
            metrics,
        }
    }

    /// Starts a worker whose process is called `holder`.
    pub async fn start(&self, holder: &str) -> Running {
        let metrics = Arc::new(Metrics::register("0").unwrap());
        let worker = build(self.parts(holder, Arc::clone(&metrics))).await.unwrap();
        let (soft, hard) = (CancellationToken::new(), CancellationToken::new());
        let health = worker.health();
        let role = tokio::spawn(worker.run_until_stopped(soft.clone(), hard.clone()));
        Running { soft, hard, health, metrics, role }
    }

    pub async fn publish(&self, messages: impl IntoIterator<Item = Message>) {
        for message in messages {
            self.queue.publish(Arc::new(message)).await.unwrap();
        }
    }

    /// The recorded event of this id; it must be there.
    pub fn recorded(&self, event_id: &str) -> EventRecord {
        self.find(event_id).unwrap_or_else(|| panic!("{event_id} is not recorded"))
    }

    pub fn find(&self, event_id: &str) -> Option<EventRecord> {
        self.store.recorded().into_iter().find(|record| record.event_id == event_id)
    }

    pub fn status(&self, event_id: &str) -> Option<EventStatus> {
        self.find(event_id).map(|record| record.status)
    }

    /// Reason of the last failure, where it is dead or retrying.
    pub fn reason(&self, event_id: &str) -> Option<String> {
        self.recorded(event_id).error.map(|(reason, _)| reason)
    }

    pub async fn becomes(&self, event_id: &str, status: EventStatus) {
        until(&format!("{event_id} is {status}"), || self.status(event_id) == Some(status)).await;
    }

    pub async fn queue_empties(&self, queue: &QueueName) {
        until(&format!("{queue} is empty"), || self.queue.contents(queue) == 0).await;
    }
}

/// A worker that runs.
pub struct Running {
    pub soft: CancellationToken,
    pub hard: CancellationToken,
    pub health: Arc<Health>,
    pub metrics: Arc<Metrics>,
    pub role: JoinHandle<Result<(), WorkerError>>,
}

impl Running {
    /// Asks to stop, and gives how the role ended.
    pub async fn stop(self) -> Result<(), WorkerError> {
        self.soft.cancel();
        self.ended().await
    }

    /// How the role ended, which must come by itself.
    pub async fn ended(self) -> Result<(), WorkerError> {
        tokio::time::timeout(Duration::from_secs(60), self.role).await.expect("the role ends").expect("no panic")
    }

    /// The value of a metric's line; nothing where it has none.
    pub fn metric(&self, line: &str) -> Option<f64> {
        let text = String::from_utf8(self.metrics.render().unwrap()).unwrap();
        let value = text.lines().find_map(|l| l.strip_prefix(line)?.strip_prefix(' ').map(str::to_owned))?;
        Some(value.parse().unwrap())
    }
}

/// Polls in paused time: it goes on as soon as nobody has anything to do.
pub async fn until(what: &str, done: impl Fn() -> bool) {
    let start = tokio::time::Instant::now();
    while !done() {
        let waited = start.elapsed();
        assert!(waited < Duration::from_secs(6 * 3600), "waited in vain until {what}");
        tokio::time::sleep(Duration::from_millis(if waited.as_secs() < 60 { 7 } else { 97 })).await;
    }
}

/// Lets so much time pass.
pub async fn pass(world: &World, time: Duration) {
    let end = world.clock.now().plus(time);
    tokio::time::sleep_until(tokio::time::Instant::now() + time).await;
    assert!(world.clock.now() >= end);
}
