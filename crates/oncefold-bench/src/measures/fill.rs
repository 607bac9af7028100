//! A backlog for workers, put on the queue as intake does.

use crate::clock;
use crate::event::{self, Traffic};
use anyhow::{Context as _, Result, bail};
use bytes::Bytes;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use oncefold_core::queue::{Publisher, QueueAdmin};
use oncefold_core::{Digest, EventUuid, Facts, FactsJson, Message, SourceName, Timestamp};
use oncefold_rabbitmq::{RabbitQueue, RabbitSettings};
use std::sync::Arc;
use std::time::Duration;
use uuid::Uuid;

/// As many as the load generator has connections: what decides how events are grouped.
const IN_FLIGHT: usize = 64;
const CONNECT_TRIES: u32 = 100;
const CONNECT_PAUSE: Duration = Duration::from_millis(100);

/// Publishes events 0 to `count` to a virtual host, at most so many in one message.
pub async fn rabbitmq(url: &str, count: u64, group_max: usize) -> Result<()> {
    let settings = RabbitSettings {
        url: url.to_owned(),
        confirm_timeout: Duration::from_secs(60),
        publish_channels: 2,
        group_max,
    };
    let queue = RabbitQueue::start(settings)?;
    let source = SourceName::parse(event::SOURCE)?;
    let mut tries = 0;
    loop {
        let declared = queue.declare(std::slice::from_ref(&source)).await;
        if declared.is_ok() && queue.is_available() {
            break;
        }
        tries += 1;
        if tries > CONNECT_TRIES {
            declared.context("the broker")?;
            bail!("the broker takes no publishes");
        }
        tokio::time::sleep(CONNECT_PAUSE).await;
    }
    publish(queue.as_ref(), count).await?;
    queue.close().await;
    Ok(())
}

/// Publishes events 0 to `count`.
pub async fn publish(queue: &dyn Publisher, count: u64) -> Result<()> {
    let traffic = Traffic::prepare()?;
    let source = SourceName::parse(event::SOURCE)?;
    let publishes = (0..count).map(|n| queue.publish(Arc::new(message(&source, n, traffic.body(n)))));
    stream::iter(publishes).buffer_unordered(IN_FLIGHT).try_for_each(async |()| Ok(())).await.context("publish")
}

fn message(source: &SourceName, n: u64, body: Vec<u8>) -> Message {
    let received_at = Timestamp::from_micros(clock::now_us());
    let second = u64::try_from(received_at.as_seconds()).unwrap_or(0);
    let header = |name: &str, value: String| (name.to_owned(), value);
    Message {
        id: EventUuid::from(Uuid::new_v7(uuid::Timestamp::from_unix(uuid::NoContext, second, 0))),
        source: source.clone(),
        event_id: event::id(n),
        event_type: Some(event::TYPE.to_owned()),
        received_at,
        generation: 0,
        attempts: 0,
        digest: Digest::of(&body),
        facts: FactsJson::encode(&Facts {
            trace_id: format!("{n:032x}"),
            content_type: Some("application/json".to_owned()),
            headers: vec![
                header("host", "127.0.0.1".to_owned()),
                header("content-type", "application/json".to_owned()),
                header("content-length", body.len().to_string()),
            ],
            query: String::new(),
            scheme: "hmac".to_owned(),
            secret_index: Some(0),
        }),
        body: Bytes::from(body),
    }
}
