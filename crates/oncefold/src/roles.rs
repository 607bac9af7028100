//! Roles: each built from the config over the backends, and given to the life of the process.

use crate::backends::{Broker, Database};
use crate::clock::{OsEntropy, SystemClock};
use crate::diagnosis::Diagnosis;
use crate::failure::Failure;
use crate::intake;
use crate::lifecycle::Lifecycle;
use crate::ops::{Ops, OpsListen, Part};
use crate::reload::Reload;
use crate::settings::Settings;
use anyhow::Context as _;
use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use oncefold_admin::{AdminParts, AdminSettings, AdminToken};
use oncefold_config::Config;
use oncefold_core::queue::{Publisher, Queue, QueueAdmin};
use oncefold_core::store::Store;
use oncefold_core::{Clock, Entropy as _, SourceName};
use oncefold_ingest::{IngestHealth, IngestParts, IngestSettings, KeyRing, Readiness};
use oncefold_signature::Scheme;
use oncefold_telemetry::Metrics;
use oncefold_worker::{WorkerParts, WorkerSettings};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};

/// How long a starting intake tries to declare its queues before it goes on without (they are declared on connect).
const DECLARE_WAIT: Duration = Duration::from_secs(5);

/// Bytes of bodies that a scheduler or relay may claim at once, and events.
const DUTY_BYTES_MAX: usize = 32 * 1024 * 1024;
const DUTY_PAGE_MAX: u32 = 256;

/// How long connections may take to close at the end.
const CLOSE_MAX: Duration = Duration::from_secs(3);

/// A process being put together.
pub struct Process {
    /// The config it runs with.
    pub config: Config,
    /// Its database.
    pub database: Database,
    /// Its queue.
    pub broker: Broker,
    /// Its metrics.
    pub metrics: Arc<Metrics>,
    /// The file the config came from; none where it is built in.
    file: Option<PathBuf>,
    lifecycle: Lifecycle,
    parts: Vec<Arc<dyn Part>>,
    /// What explains rejected deliveries.
    diagnosis: Diagnosis,
    /// Whether a task reads secrets again.
    reads_secrets: bool,
}

impl Process {
    /// Opens the backends.
    ///
    /// # Errors
    /// When they cannot be used as the config has them.
    pub async fn open(settings: Settings) -> Result<Self, Failure> {
        let Settings { config, file } = settings;
        // Its default would end a role that has no secrets to read again.
        let _caught = signal(SignalKind::hangup()).context("cannot listen for SIGHUP")?;
        let metrics = Arc::new(Metrics::register(env!("CARGO_PKG_VERSION")).context("metrics")?);
        let database = Database::open(&config).await?;
        let broker = Broker::start(&config, &database)?;
        let diagnosis = Diagnosis::with(&config.sources);
        let lifecycle = Lifecycle::default();
        let parts = vec![];
        Ok(Self { config, database, broker, metrics, file, lifecycle, parts, diagnosis, reads_secrets: false })
    }

    /// Adds intake; gives its address.
    ///
    /// # Errors
    /// When it cannot listen.
    pub async fn add_ingest(&mut self) -> Result<SocketAddr, Failure> {
        let sources = self.config.sources.iter().map(intake::source).collect::<Result<Vec<_>, _>>()?;
        let names: Vec<SourceName> = sources.iter().map(|s| s.model.name.clone()).collect();
        declare(self.broker.queue.as_ref(), &names).await?;
        for source in self.config.sources.iter().filter(|s| matches!(s.scheme, Scheme::None)) {
            tracing::warn!(source = %source.name(), "scheme \"none\": anybody who can reach this source can write to it");
        }
        let mut settings = IngestSettings::listening_on(self.config.ingest.listen);
        settings.max_body = self.config.ingest.max_body;
        settings.publish_timeout = self.config.ingest.confirm_timeout + Duration::from_secs(1);
        let ingest = oncefold_ingest::build(IngestParts {
            settings,
            sources,
            publisher: Arc::clone(&self.broker.queue) as Arc<dyn Publisher>,
            spool: self.database.spool(),
            rejected: Some(self.database.store()),
            outbound: Some(Arc::new(intake::Providers::default())),
            roots: intake::system_roots(&self.config),
            clock: Arc::new(SystemClock),
            entropy: Arc::new(OsEntropy),
            metrics: Arc::clone(&self.metrics),
        })
        .await?;
        let address = ingest.local_addr();
        self.parts.push(Arc::new(IngestPart(ingest.health())));
        let tokens = self.lifecycle.tokens();
        self.read_secrets_again(Some(ingest.key_ring()))?;
        self.lifecycle.spawn("intake", ingest.run_until_stopped(tokens.soft, tokens.hard));
        Ok(address)
    }

    fn read_secrets_again(&mut self, ring: Option<KeyRing>) -> Result<(), Failure> {
        let reload = Reload::of(self.file.clone(), &self.config, ring, self.diagnosis.clone())?;
        self.lifecycle.spawn("the reader of secrets", reload.run_until_stopped(self.lifecycle.tokens().soft));
        self.reads_secrets = true;
        Ok(())
    }

    /// Adds a worker, of these sources only where any are named.
    ///
    /// # Errors
    /// When its config does not fit the store.
    pub async fn add_worker(&mut self, only: Vec<SourceName>) -> Result<(), Failure> {
        let config = &self.config;
        let mut settings = WorkerSettings::defaults(holder());
        settings.batch = config.worker.batch as usize;
        settings.writers = self.database.writers();
        settings.linger = config.worker.linger;
        settings.prefetch = u16::try_from(config.worker.prefetch).unwrap_or(u16::MAX);
        settings.retry = config.retry;
        settings.ids_retention = config.retention.ids;
        settings.bodies_retention = config.retention.bodies;
        settings.pace.page = page(config.ingest.max_body);
        settings.only_sources = (!only.is_empty()).then_some(only);
        let worker = oncefold_worker::build(WorkerParts {
            settings,
            sources: config.sources.iter().map(|s| Arc::new(s.model.clone())).collect(),
            store: self.database.store(),
            queue: Arc::clone(&self.broker.queue),
            spool: self.database.spool(),
            clock: Arc::new(SystemClock),
            entropy: Arc::new(OsEntropy),
            metrics: Arc::clone(&self.metrics),
        })
        .await
        .map_err(worker_failure)?;
        self.parts.push(Arc::new(WorkerPart(worker.health())));
        let tokens = self.lifecycle.tokens();
        self.lifecycle.spawn("the worker", worker.run_until_stopped(tokens.soft, tokens.hard));
        Ok(())
    }

    /// Adds the admin API; gives its address, and the one-time token where the config has none.
    ///
    /// # Errors
    /// When it cannot listen, or would be open to the network without tokens.
    pub async fn add_admin(&mut self) -> Result<(SocketAddr, Option<String>), Failure> {
        let mut tokens: Vec<AdminToken> = self.config.admin.tokens.iter().map(admin_token).collect();
        let one_time = tokens.is_empty().then(random_token);
        if let Some(token) = &one_time {
            let sha256 = oncefold_admin::hash_token(token);
            tokens.push(AdminToken { name: "one-time".to_owned(), role: oncefold_admin::Role::Operator, sha256 });
        }
        let settings = AdminSettings { listen: self.config.admin.listen, tokens };
        // Judged by what the config has: a one-time token does not open the API to the network.
        if one_time.is_some() && !settings.listen.ip().is_loopback() {
            return Err(Failure::config(oncefold_admin::AdminError::Unprotected(settings.listen)));
        }
        let admin = oncefold_admin::build(AdminParts {
            settings,
            configured_sources: self.config.sources.iter().map(|s| s.name().clone()).collect(),
            store: self.database.store(),
            diagnose: Some(Arc::new(self.diagnosis.clone())),
            queue: Some(Arc::clone(&self.broker.queue) as Arc<dyn QueueAdmin>),
            clock: Arc::new(SystemClock),
            metrics: Arc::clone(&self.metrics),
        })
        .await?;
        let address = admin.local_addr();
        if !self.reads_secrets {
            self.read_secrets_again(None)?;
        }
        self.parts.push(Arc::new(AdminPart(self.database.store())));
        let stops = self.lifecycle.tokens();
        self.lifecycle.spawn("the admin API", admin.run_until_stopped(stops.soft, stops.hard));
        Ok((address, one_time))
    }

    /// Adds the ops listener; gives its address, if it is not off.
    ///
    /// # Errors
    /// When it cannot listen.
    pub async fn add_ops(&mut self) -> Result<Option<SocketAddr>, Failure> {
        let listen = match self.config.ops {
            oncefold_config::OpsListen::Off => OpsListen::Off,
            oncefold_config::OpsListen::On(address) => OpsListen::At(address),
            oncefold_config::OpsListen::Unset => OpsListen::Default,
        };
        let (queue, metrics) = (Arc::clone(&self.broker.queue), Arc::clone(&self.metrics));
        let refresh = Box::new(move || metrics.queue_connected.set(i64::from(queue.is_available())));
        let Some(ops) = Ops::build(listen, Arc::clone(&self.metrics), self.parts.clone(), refresh).await? else {
            return Ok(None);
        };
        let address = ops.local_addr()?;
        self.lifecycle.spawn("the ops listener", ops.run_until_stopped(self.lifecycle.tokens().soft));
        Ok(Some(address))
    }

    /// Runs until a signal or until a task dies, then closes the backends.
    ///
    /// # Errors
    /// When a task died.
    pub async fn run(self) -> Result<(), Failure> {
        let ended = self.lifecycle.run().await;
        // After a hard stop a statement may still hold its connection: then the connection just ends.
        let closing = async {
            self.broker.close().await;
            self.database.close().await;
        };
        if tokio::time::timeout(CLOSE_MAX, closing).await.is_err() {
            tracing::warn!("connections did not close in time: they end with the process");
        }
        if ended.is_ok() {
            tracing::info!("stopped");
        }
        ended
    }

    /// Stops softly, as a signal would.
    pub fn stop_token(&self) -> tokio_util::sync::CancellationToken {
        self.lifecycle.tokens().soft
    }
}

/// How many bodies a scheduler or relay may have in hand, so that their bytes stay bounded whatever their size.
fn page(max_body: usize) -> u32 {
    u32::try_from(DUTY_BYTES_MAX / max_body.max(1)).unwrap_or(u32::MAX).clamp(1, DUTY_PAGE_MAX)
}

fn worker_failure(error: oncefold_worker::WorkerError) -> Failure {
    use oncefold_worker::WorkerError;
    match error {
        WorkerError::Rules(_) | WorkerError::NoSuchSource(_) => Failure::config(error),
        _ => Failure::Run(error.into()),
    }
}

/// Queues that exist with other arguments are a mistake of somebody's; a broker that is away is not.
async fn declare(queue: &dyn Queue, sources: &[SourceName]) -> Result<(), Failure> {
    use oncefold_core::queue::QueueError;
    match tokio::time::timeout(DECLARE_WAIT, queue.declare(sources)).await {
        Ok(Err(e @ QueueError::Misconfigured(_))) => Err(Failure::config(e)),
        Ok(Err(QueueError::Away(why))) => {
            tracing::warn!(why, "the queue is away: deliveries go to the spool until it is back");
            Ok(())
        }
        Ok(Ok(())) => Ok(()),
        Err(_) => {
            tracing::warn!("the queue does not answer: deliveries go to the spool until it does");
            Ok(())
        }
    }
}

fn admin_token(token: &oncefold_config::AdminToken) -> AdminToken {
    let role = match token.role {
        oncefold_config::Role::Viewer => oncefold_admin::Role::Viewer,
        oncefold_config::Role::Operator => oncefold_admin::Role::Operator,
    };
    AdminToken { name: token.name.clone(), role, sha256: *token.sha256.as_bytes() }
}

/// A token of 256 random bits.
pub fn random_token() -> String {
    let mut bytes = [0; 32];
    OsEntropy.fill(&mut bytes);
    format!("oncefold_{}", URL_SAFE_NO_PAD.encode(bytes))
}

/// Names this start of this process.
fn holder() -> String {
    format!("{}-{:016x}", std::process::id(), OsEntropy.next_u64() ^ SystemClock.now().as_micros().cast_unsigned())
}

struct IngestPart(IngestHealth);
struct WorkerPart(Arc<oncefold_worker::Health>);
struct AdminPart(Arc<dyn Store>);

#[async_trait]
impl Part for IngestPart {
    fn name(&self) -> &'static str {
        "ingest"
    }

    async fn ready(&self) -> Result<(), String> {
        match self.0.check().await {
            Readiness::Queue | Readiness::Spool => Ok(()),
            Readiness::Nothing => Err("neither the queue nor the database takes events".to_owned()),
        }
    }
}

#[async_trait]
impl Part for WorkerPart {
    fn name(&self) -> &'static str {
        "worker"
    }

    async fn ready(&self) -> Result<(), String> {
        let problems = self.0.problems();
        if problems.is_empty() {
            return Ok(());
        }
        Err(problems.iter().map(|(part, why)| format!("{part}: {why}")).collect::<Vec<_>>().join("; "))
    }
}

#[async_trait]
impl Part for AdminPart {
    fn name(&self) -> &'static str {
        "admin"
    }

    async fn ready(&self) -> Result<(), String> {
        self.0.ping().await.map_err(|e| e.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of bodies at the limit no more are taken at once than the bytes allow, but one always is.
    #[test]
    fn a_page_is_bounded_in_bytes() {
        const MIB: usize = 1024 * 1024;
        for (max_body, expected) in
            [(0, 256), (1, 256), (MIB / 8, 256), (MIB / 8 + 1, 255), (MIB, 32), (10 * MIB, 3), (32 * MIB, 1)]
        {
            assert_eq!(page(max_body), expected, "{max_body}");
            assert!(page(max_body) as usize * max_body <= 32 * MIB, "{max_body}");
        }
        for larger in [33 * MIB, usize::MAX] {
            assert_eq!(page(larger), 1, "{larger}");
        }
    }
}
