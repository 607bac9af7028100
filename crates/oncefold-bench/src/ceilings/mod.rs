//! Ceiling programs: the same durable work as the product, and nothing else. Each is a process of its own, as the
//! product's roles are, and as fast as we know how to make it.

mod embedded;
mod ingest;
mod rows;
mod worker;

use anyhow::{Context as _, Result};
use axum::Router;
use axum::http::{HeaderMap, StatusCode};
use axum::serve::ListenerExt as _;
use bytes::Bytes;
use clap::Subcommand;
use hmac::{Hmac, KeyInit as _};
use sha2::Sha256;
use std::path::PathBuf;

use crate::event::{self, Parsed};

/// Which ceiling.
#[derive(Debug, Subcommand)]
pub enum Ceiling {
    /// axum, HMAC-SHA256, JSON parse, quorum confirm, 200
    Ingest {
        /// AMQP URL
        #[arg(long)]
        queue: String,
    },
    /// The worker's rows by bare batched SQL, then acks
    Worker {
        /// AMQP URL
        #[arg(long)]
        queue: String,
        /// PostgreSQL URL
        #[arg(long)]
        store: String,
    },
    /// Group commit of queue rows and of the worker's rows into one SQLite file
    Embedded {
        /// The file, migrated
        #[arg(long)]
        file: PathBuf,
    },
}

/// Runs one until it is killed.
pub async fn run(ceiling: Ceiling) -> Result<()> {
    match ceiling {
        Ceiling::Ingest { queue } => ingest::run(&queue).await,
        Ceiling::Worker { queue, store } => worker::run(&queue, &store).await,
        Ceiling::Embedded { file } => embedded::run(&file).await,
    }
}

/// The key, ready to be used.
fn mac() -> Result<Hmac<Sha256>> {
    Hmac::new_from_slice(event::SECRET.as_bytes()).context("the secret's length")
}

/// Verifies and parses a delivery.
fn accepted<'b>(mac: &Hmac<Sha256>, headers: &HeaderMap, body: &'b Bytes) -> Result<Parsed<'b>, StatusCode> {
    let signature = headers.get(event::SIGNATURE_HEADER).map(|value| value.as_bytes());
    if !event::is_signed(mac, body, signature) {
        return Err(StatusCode::UNAUTHORIZED);
    }
    serde_json::from_slice(body).map_err(|_| StatusCode::BAD_REQUEST)
}

/// Announces an address of its own as the product does, and serves.
#[allow(clippy::print_stderr, reason = "the product announces its address there too")]
async fn serve(app: Router) -> Result<()> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    eprintln!("intake   http://{}{}", listener.local_addr()?, event::PATH);
    let listener = listener.tap_io(|stream| {
        let _ = stream.set_nodelay(true); // a slower answer is all that would come of it
    });
    axum::serve(listener, app).await.context("serve")
}
