//! The ops listener of a process: `/metrics`, `/healthz`, `/readyz`.

use anyhow::Context as _;
use async_trait::async_trait;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use axum::{Json, Router};
use oncefold_telemetry::Metrics;
use serde_json::{Map, Value, json};
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// A part of the process that can be ready or not.
#[async_trait]
pub trait Part: Send + Sync {
    /// Its name in `/readyz`.
    fn name(&self) -> &'static str;
    /// `Ok` if it can do its job, else why not.
    async fn ready(&self) -> Result<(), String>;
}

/// Where the ops listener is to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpsListen {
    /// Nowhere.
    Off,
    /// There, or not at all.
    At(SocketAddr),
    /// The default port if it is free, else any: a second role on one host.
    Default,
}

/// The port where the config says nothing.
pub const DEFAULT_PORT: u16 = 9464;

/// A bound ops listener.
pub struct Ops {
    listener: TcpListener,
    router: Router,
}

struct Served {
    metrics: Arc<Metrics>,
    parts: Vec<Arc<dyn Part>>,
    refresh: Refresh,
}

/// Brings gauges of the process itself up to date before a scrape.
pub type Refresh = Box<dyn Fn() + Send + Sync>;

impl Ops {
    /// Binds; nothing where it is off.
    ///
    /// # Errors
    /// When the address cannot be bound.
    pub async fn build(
        listen: OpsListen,
        metrics: Arc<Metrics>,
        parts: Vec<Arc<dyn Part>>,
        refresh: Refresh,
    ) -> anyhow::Result<Option<Self>> {
        let listener = match listen {
            OpsListen::Off => return Ok(None),
            OpsListen::At(address) => {
                TcpListener::bind(address).await.with_context(|| format!("ops.listen: cannot listen on {address}"))?
            }
            OpsListen::Default => default_listener().await?,
        };
        tracing::info!(address = %listener.local_addr()?, "metrics and health are served");
        let router = Router::new()
            .route("/metrics", get(metrics_text))
            .route("/healthz", get(|| async { Json(json!({"status": "alive"})) }))
            .route("/readyz", get(readiness))
            .with_state(Arc::new(Served { metrics, parts, refresh }));
        Ok(Some(Self { listener, router }))
    }

    /// Where it listens.
    ///
    /// # Errors
    /// When the socket is gone.
    pub fn local_addr(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until `stop`.
    ///
    /// # Errors
    /// When the listener fails.
    pub async fn run_until_stopped(self, stop: CancellationToken) -> std::io::Result<()> {
        let served = axum::serve(self.listener, self.router);
        tokio::select! {
            result = served => result,
            () = stop.cancelled() => Ok(()),
        }
    }
}

async fn default_listener() -> anyhow::Result<TcpListener> {
    let loopback = std::net::Ipv4Addr::LOCALHOST;
    match TcpListener::bind((loopback, DEFAULT_PORT)).await {
        Ok(listener) => Ok(listener),
        Err(e) if e.kind() == std::io::ErrorKind::AddrInUse => {
            tracing::info!(port = DEFAULT_PORT, "the ops port is taken by another process: taking a free one");
            TcpListener::bind((loopback, 0)).await.context("ops.listen: no free port")
        }
        Err(e) => Err(e).context(format!("ops.listen: cannot listen on {loopback}:{DEFAULT_PORT}")),
    }
}

async fn metrics_text(State(served): State<Arc<Served>>) -> Response {
    (served.refresh)();
    match served.metrics.render() {
        Ok(text) => ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text).into_response(),
        Err(e) => (StatusCode::INTERNAL_SERVER_ERROR, e.to_string()).into_response(),
    }
}

async fn readiness(State(served): State<Arc<Served>>) -> Response {
    let mut parts = Map::new();
    for part in &served.parts {
        let shown = match part.ready().await {
            Ok(()) => json!({"ready": true}),
            Err(reason) => json!({"ready": false, "reason": reason}),
        };
        parts.insert(part.name().to_owned(), shown);
    }
    let ready = parts.values().all(|part| part["ready"] == true);
    let (code, status) = if ready { (StatusCode::OK, "ready") } else { (StatusCode::SERVICE_UNAVAILABLE, "unready") };
    (code, Json(json!({"status": status, "parts": Value::Object(parts)}))).into_response()
}
