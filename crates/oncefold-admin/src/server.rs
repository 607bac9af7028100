//! Listening, serving, stopping.

use crate::api::{Api, Diagnose};
use crate::auth::AdminToken;
use crate::routes;
use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use oncefold_core::queue::QueueAdmin;
use oncefold_core::store::Store;
use oncefold_core::{Clock, SourceName};
use oncefold_telemetry::Metrics;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// How long a client may take to send a request's head, and how long a connection may idle.
const HEAD_TIMEOUT: Duration = Duration::from_secs(15);
/// Longest head of a request, bytes.
const HEAD_BYTES_MAX: usize = 32 * 1024;
/// Connections served at once; further ones wait in the listener's backlog.
const CONNECTIONS_MAX: usize = 512;
/// Pause after a failed accept, so that running out of files does not spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// `[admin]` of the config.
#[derive(Clone, Debug)]
pub struct AdminSettings {
    /// Where to listen; port 0 takes any.
    pub listen: SocketAddr,
    /// Who may ask. Without any, nothing but the OpenAPI document is answered.
    pub tokens: Vec<AdminToken>,
}

/// What the role is made of.
pub struct AdminParts {
    /// Its settings.
    pub settings: AdminSettings,
    /// The sources of the config.
    pub configured_sources: Vec<SourceName>,
    /// The store.
    pub store: Arc<dyn Store>,
    /// What explains rejected deliveries, if anything does.
    pub diagnose: Option<Arc<dyn Diagnose>>,
    /// Where queue depths come from, if anywhere.
    pub queue: Option<Arc<dyn QueueAdmin>>,
    /// Where "now" comes from.
    pub clock: Arc<dyn Clock>,
    /// Counters of this process.
    pub metrics: Arc<Metrics>,
}

/// Why the role cannot start.
#[derive(Debug, Error)]
pub enum AdminError {
    /// It would be open to the network without anybody who may ask.
    #[error(
        "[admin] listen = \"{0}\" can be reached from other machines, and there are no tokens: make one with \
         `oncefold token new` and put it into [admin] tokens, or listen on 127.0.0.1"
    )]
    Unprotected(SocketAddr),
    /// The address cannot be had.
    #[error("[admin] cannot listen on {listen}: {cause}")]
    Bind {
        /// The address.
        listen: SocketAddr,
        /// What the system says.
        cause: std::io::Error,
    },
}

/// The role, bound and ready to run.
pub struct Admin {
    listener: TcpListener,
    local_addr: SocketAddr,
    router: Router,
    mutations: TaskTracker,
}

/// Binds.
///
/// # Errors
/// When the address cannot be had, or must not be without tokens.
pub async fn build(parts: AdminParts) -> Result<Admin, AdminError> {
    let listen = parts.settings.listen;
    if parts.settings.tokens.is_empty() && !listen.ip().to_canonical().is_loopback() {
        return Err(AdminError::Unprotected(listen));
    }
    let cannot = |cause| AdminError::Bind { listen, cause };
    let listener = TcpListener::bind(listen).await.map_err(cannot)?;
    let local_addr = listener.local_addr().map_err(cannot)?;
    let mutations = TaskTracker::new();
    let api = Arc::new(Api {
        read: parts.store.clone(),
        rejected: parts.store.clone(),
        diagnose: parts.diagnose,
        act: parts.store,
        queue: parts.queue,
        clock: parts.clock,
        metrics: parts.metrics,
        configured_sources: parts.configured_sources,
        tokens: parts.settings.tokens,
        mutations: mutations.clone(),
    });
    Ok(Admin { listener, local_addr, router: routes::all(&api).into_router(), mutations })
}

impl Admin {
    /// Where it listens.
    pub fn local_addr(&self) -> SocketAddr {
        self.local_addr
    }

    /// Serves until `soft` is cancelled, then finishes the requests and changes in hand; `hard` ends those too.
    ///
    /// # Errors
    /// None at present: a failing accept is logged and tried again.
    pub async fn run_until_stopped(self, soft: CancellationToken, hard: CancellationToken) -> Result<(), AdminError> {
        let connections = TaskTracker::new();
        let slots = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        let stopped = async {
            tokio::select! { () = soft.cancelled() => {}, () = hard.cancelled() => {} }
        };
        tokio::pin!(stopped);
        loop {
            let accepted = async {
                let slot = slots.clone().acquire_owned().await.ok();
                (slot, self.listener.accept().await)
            };
            let (slot, accepted) = tokio::select! {
                biased;
                () = &mut stopped => break,
                accepted = accepted => accepted,
            };
            match accepted {
                Ok((stream, _)) => {
                    let serving = serve(stream, self.router.clone(), (soft.clone(), hard.clone()));
                    connections.spawn(async move {
                        serving.await;
                        drop(slot);
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "the admin listener could not accept a connection");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
        drop(self.listener);
        connections.close();
        self.mutations.close();
        let finished = async {
            connections.wait().await;
            self.mutations.wait().await;
        };
        tokio::select! { () = finished => {}, () = hard.cancelled() => {} }
        Ok(())
    }
}

/// Serves one connection. A client that breaks the protocol ends it; that is no news.
async fn serve(stream: TcpStream, router: Router, (soft, hard): (CancellationToken, CancellationToken)) {
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(HEAD_BYTES_MAX)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    tokio::pin!(connection);
    tokio::select! {
        _ended = connection.as_mut() => return,
        () = soft.cancelled() => connection.as_mut().graceful_shutdown(),
        () = hard.cancelled() => return,
    }
    tokio::select! { _ended = connection => {}, () = hard.cancelled() => {} }
}
