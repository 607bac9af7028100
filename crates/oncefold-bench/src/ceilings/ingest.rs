//! R1, R2: axum -> HMAC-SHA256 + JSON parse -> publish to a quorum queue -> confirm -> 200.

use super::{accepted, mac, serve};
use crate::clock;
use crate::event::{PATH, WORK_QUEUE};
use anyhow::{Context as _, Result};
use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use bytes::Bytes;
use futures_util::poll;
use hmac::Hmac;
use lapin::options::{BasicPublishOptions, ConfirmSelectOptions, QueueDeclareOptions};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{BasicProperties, Channel, Confirmation, Connection, ConnectionProperties};
use sha2::Sha256;
use std::sync::Arc;
use std::task::Poll;
use tokio::sync::{mpsc, oneshot};

const PERSISTENT: u8 = 2;
const JOBS_MAX: usize = 1024;

/// A body, and where its outcome goes.
struct Job(Bytes, oneshot::Sender<bool>);

struct Shared {
    mac: Hmac<Sha256>,
    jobs: mpsc::Sender<Job>,
}

pub async fn run(queue_url: &str) -> Result<()> {
    let connection = Connection::connect(queue_url, ConnectionProperties::default()).await.context("broker")?;
    let channel = connection.create_channel().await?;
    channel.confirm_select(ConfirmSelectOptions::default()).await?;
    let options = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
    let mut arguments = FieldTable::default();
    arguments.insert("x-queue-type".into(), AMQPValue::LongString("quorum".into()));
    channel.queue_declare(WORK_QUEUE.into(), options, arguments).await?;
    let (jobs, waiting) = mpsc::channel(JOBS_MAX);
    tokio::spawn(own(channel, waiting));
    let shared = Arc::new(Shared { mac: mac()?, jobs });
    serve(Router::new().route(PATH, post(take)).with_state(shared)).await
}

async fn take(State(shared): State<Arc<Shared>>, headers: HeaderMap, body: Bytes) -> StatusCode {
    if let Err(status) = accepted(&shared.mac, &headers, &body) {
        return status;
    }
    let (reply, confirmed) = oneshot::channel();
    if shared.jobs.send(Job(body, reply)).await.is_err() {
        return StatusCode::SERVICE_UNAVAILABLE;
    }
    if confirmed.await == Ok(true) { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }
}

/// The one task that publishes on the channel: the client mixes confirms up otherwise. The first poll of a publish
/// takes its delivery tag and queues its frames; the rest may happen anywhere.
async fn own(channel: Channel, mut jobs: mpsc::Receiver<Job>) {
    while let Some(Job(body, reply)) = jobs.recv().await {
        let mut publish = Box::pin(publish(channel.clone(), body));
        match poll!(&mut publish) {
            Poll::Ready(confirmed) => {
                let _ = reply.send(confirmed);
            }
            Poll::Pending => {
                tokio::spawn(async move { reply.send(publish.await) });
            }
        }
    }
}

async fn publish(channel: Channel, body: Bytes) -> bool {
    let mut headers = FieldTable::default();
    headers.insert("received_at_us".into(), AMQPValue::LongLongInt(clock::now_us()));
    let properties = BasicProperties::default().with_delivery_mode(PERSISTENT).with_headers(headers);
    let options = BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() };
    match channel.basic_publish("".into(), WORK_QUEUE.into(), options, &body, properties).await {
        Ok(confirm) => matches!(confirm.await, Ok(Confirmation::Ack(None))),
        Err(_) => false,
    }
}
