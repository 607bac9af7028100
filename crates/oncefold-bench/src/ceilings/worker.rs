//! R3, and R4, R5 together with the ingest: consume, parse, write the product's rows, ack.
//!
//! Two consumers, each with a connection of its own to the database; a batch is one statement, that is one round trip and
//! one commit. It would not survive a repeat of an event within its batch, a failing row or a lost connection.

use super::rows::{ENTITY, FACTS, Row, VERDICT, winners};
use crate::clock;
use crate::event::{SOURCE, TYPE, WORK_QUEUE};
use crate::services;
use anyhow::{Context as _, Result};
use futures_util::StreamExt as _;
use futures_util::future::try_join_all;
use lapin::message::Delivery;
use lapin::options::{BasicAckOptions, BasicConsumeOptions, BasicQosOptions, QueueDeclareOptions};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{Connection, ConnectionProperties, Consumer};
use sqlx::PgConnection;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};
use uuid::Uuid;

const CONSUMERS: usize = 2;
/// As the product's defaults.
const BATCH: usize = 500;
const PREFETCH: u16 = 1000;
const LINGER: Duration = Duration::from_millis(10);

const WRITE: &str = "
WITH log AS (
    INSERT INTO events (id, source, event_id, type, status, generation, body_digest, received_at_us, deliveries,
                        attempts, settled_at_us, stored_at_us)
    SELECT id, $1, event_id, $2, 'applied', 0, digest, received_at_us, 1, 1, $3, $3
    FROM UNNEST($4::uuid[], $5::text[], $6::bytea[], $7::bigint[]) AS new (id, event_id, digest, received_at_us)
    ON CONFLICT DO NOTHING
), bytes AS (
    INSERT INTO bodies (id, stored_at_us, facts, body)
    SELECT id, $3, $8, body FROM UNNEST($4::uuid[], $9::bytea[]) AS new (id, body)
), history AS (
    INSERT INTO changes (event, at_us, generation, ordinal, source, entity, key, version, verdict, order_key)
    SELECT id, $3, 0, 0, $1, $10, key, version, $11, order_key
    FROM UNNEST($4::uuid[], $12::text[], $13::text[], $14::bytea[]) AS new (id, key, version, order_key)
)
INSERT INTO entities (entity, key, order_key, state, state_digest, version, deleted, event, updated_at_us)
SELECT $10, key, order_key, state::jsonb, state_digest, version, false, id, $3
FROM UNNEST($15::uuid[], $16::text[], $17::bytea[], $18::text[], $19::bytea[], $20::text[])
     AS new (id, key, order_key, state, state_digest, version)
ON CONFLICT (entity, key) DO UPDATE SET
    order_key = excluded.order_key, state = excluded.state, state_digest = excluded.state_digest,
    version = excluded.version, event = excluded.event, updated_at_us = excluded.updated_at_us
WHERE entities.order_key < excluded.order_key";

pub async fn run(queue_url: &str, store_url: &str) -> Result<()> {
    let connection = Connection::connect(queue_url, ConnectionProperties::default()).await.context("broker")?;
    let mut consumers = vec![];
    for _ in 0..CONSUMERS {
        let consumer = consume(&connection).await?;
        consumers.push(work(consumer, services::connect(store_url).await?));
    }
    try_join_all(consumers).await.map(|_| ())
}

async fn consume(connection: &Connection) -> Result<Consumer> {
    let channel = connection.create_channel().await?;
    channel.basic_qos(PREFETCH, BasicQosOptions::default()).await?;
    // The queue is there, whoever declared it.
    let passive = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
    channel.queue_declare(WORK_QUEUE.into(), passive, FieldTable::default()).await?;
    let options = BasicConsumeOptions::default();
    Ok(channel.basic_consume(WORK_QUEUE.into(), "".into(), options, FieldTable::default()).await?)
}

async fn work(mut consumer: Consumer, mut database: PgConnection) -> Result<()> {
    let mut batch: Vec<Delivery> = Vec::with_capacity(BATCH);
    while let Some(first) = consumer.next().await {
        batch.push(first?);
        let linger = Instant::now() + LINGER;
        while batch.len() < BATCH
            && let Ok(Some(next)) = timeout_at(linger, consumer.next()).await
        {
            batch.push(next?);
        }
        let last = batch.last().map(|delivery| delivery.acker.clone());
        let rows = batch.drain(..).map(row).collect::<Result<Vec<_>>>()?;
        write(&mut database, &rows).await?;
        if let Some(acker) = last {
            acker.ack(BasicAckOptions { multiple: true }).await?;
        }
    }
    Ok(())
}

fn row(delivery: Delivery) -> Result<Row> {
    let received_at = delivery.properties.headers().as_ref().and_then(|h| h.inner().get("received_at_us"));
    let Some(AMQPValue::LongLongInt(received_at_us)) = received_at else { anyhow::bail!("no received_at_us") };
    let (seconds, micros) = (received_at_us / 1_000_000, received_at_us % 1_000_000);
    let moment =
        uuid::Timestamp::from_unix(uuid::NoContext, seconds.unsigned_abs(), micros.unsigned_abs() as u32 * 1000);
    Row::read(Uuid::new_v7(moment), *received_at_us, delivery.data)
}

async fn write(database: &mut PgConnection, rows: &[Row]) -> Result<()> {
    fn column<'a, T>(rows: &[&'a Row], value: impl Fn(&'a Row) -> T) -> Vec<T> {
        rows.iter().map(|row| value(row)).collect()
    }
    let all: Vec<&Row> = rows.iter().collect();
    let winners = winners(rows);
    sqlx::query(WRITE)
        .bind(SOURCE)
        .bind(TYPE)
        .bind(clock::now_us())
        .bind(column(&all, |row| row.id))
        .bind(column(&all, |row| row.event_id.as_str()))
        .bind(column(&all, |row| row.body_digest.as_slice()))
        .bind(column(&all, |row| row.received_at_us))
        .bind(FACTS)
        .bind(column(&all, |row| row.body.as_slice()))
        .bind(ENTITY)
        .bind(VERDICT)
        .bind(column(&all, |row| row.key.as_str()))
        .bind(column(&all, |row| row.version.as_str()))
        .bind(column(&all, |row| row.order_key.as_slice()))
        .bind(column(&winners, |row| row.id))
        .bind(column(&winners, |row| row.key.as_str()))
        .bind(column(&winners, |row| row.order_key.as_slice()))
        .bind(column(&winners, |row| row.state.as_str()))
        .bind(column(&winners, |row| row.state_digest.as_slice()))
        .bind(column(&winners, |row| row.version.as_str()))
        .execute(database)
        .await
        .map(|_| ())
        .context("a batch")
}
