//! R7: one SQLite file as queue and store. One task writes: queue rows of all deliveries that wait share a commit; the
//! worker's rows of a batch and the deletion of its queue rows have another, so that no ack waits for more than one of
//! those. Rows of a statement come as one JSON array, their bytes in one blob beside it.

use super::rows::{ENTITY, FACTS, Row, VERDICT, winners};
use super::{accepted, mac, serve};
use crate::clock;
use crate::event::{PATH, SOURCE, TYPE, WORK_QUEUE};
use anyhow::{Context as _, Result, bail};
use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use bytes::Bytes;
use hmac::Hmac;
use serde::Serialize;
use sha2::{Digest as _, Sha256};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous};
use sqlx::{ConnectOptions as _, SqliteConnection};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, mpsc, oneshot};
use uuid::Uuid;

const GROUP: usize = 512;
/// As the product's defaults.
const BATCH: i64 = 500;
const LINGER: Duration = Duration::from_millis(10);

enum Job {
    /// A delivery to queue.
    Queue { event_id: String, body: Bytes, done: oneshot::Sender<bool> },
    /// A batch to apply; its queue rows go.
    Apply { rows: Vec<Row>, sequences: Vec<i64>, done: oneshot::Sender<bool> },
}

struct Shared {
    mac: Hmac<Sha256>,
    jobs: mpsc::UnboundedSender<Job>,
}

pub async fn run(file: &Path) -> Result<()> {
    let (jobs, waiting) = mpsc::unbounded_channel();
    let queued = Arc::new(Notify::new());
    let writer = tokio::spawn(write(open(file).await?, waiting, Arc::clone(&queued)));
    let applier = tokio::spawn(apply(open(file).await?, jobs.clone(), queued));
    let shared = Arc::new(Shared { mac: mac()?, jobs });
    let app = Router::new().route(PATH, post(take)).with_state(shared);
    tokio::select! {
        ended = writer => ended?,
        ended = applier => ended?,
        ended = serve(app) => ended,
    }
}

async fn open(file: &Path) -> Result<SqliteConnection> {
    let options = SqliteConnectOptions::new()
        .filename(file)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full)
        .pragma("cache_size", "-32000")
        .pragma("wal_autocheckpoint", "8000")
        .disable_statement_logging();
    options.connect().await.with_context(|| format!("cannot open {}", file.display()))
}

async fn take(State(shared): State<Arc<Shared>>, headers: HeaderMap, body: Bytes) -> StatusCode {
    let event_id = match accepted(&shared.mac, &headers, &body) {
        Ok(parsed) => parsed.id.into_owned(),
        Err(status) => return status,
    };
    let (done, committed) = oneshot::channel();
    let _ = shared.jobs.send(Job::Queue { event_id, body, done });
    if committed.await == Ok(true) { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }
}

async fn write(mut file: SqliteConnection, mut jobs: mpsc::UnboundedReceiver<Job>, queued: Arc<Notify>) -> Result<()> {
    let mut waiting = Vec::with_capacity(GROUP);
    while jobs.recv_many(&mut waiting, GROUP).await > 0 {
        // Whom the last commit woke may be about to ask again: it joins.
        tokio::task::yield_now().await;
        while waiting.len() < GROUP
            && let Ok(job) = jobs.try_recv()
        {
            waiting.push(job);
        }
        let (mut bodies, mut replies, mut batch) = (vec![], vec![], None);
        for job in waiting.drain(..) {
            match job {
                Job::Queue { event_id, body, done } => {
                    bodies.push((event_id, body));
                    replies.push(done);
                }
                Job::Apply { rows, sequences, done } => batch = Some((rows, sequences, done)),
            }
        }
        if !bodies.is_empty() {
            write_queue(&mut file, &bodies).await?;
            queued.notify_one();
            replies.into_iter().for_each(answer);
        }
        if let Some((rows, sequences, done)) = batch {
            sqlx::query("BEGIN IMMEDIATE").execute(&mut file).await?;
            write_batch(&mut file, &rows, &sequences).await?;
            sqlx::query("COMMIT").execute(&mut file).await?;
            answer(done);
        }
    }
    bail!("nobody is left to write for")
}

fn answer(done: oneshot::Sender<bool>) {
    let _ = done.send(true); // fails where nobody waits any more
}

/// Takes what is queued, batch after batch.
async fn apply(mut file: SqliteConnection, jobs: mpsc::UnboundedSender<Job>, queued: Arc<Notify>) -> Result<()> {
    let mut after = 0;
    loop {
        let found: Vec<(i64, Vec<u8>, i64, Vec<u8>)> = sqlx::query_as(
            "SELECT sequence, id, received_at_us, body FROM queue
             WHERE name = ?1 AND sequence > ?2 ORDER BY sequence LIMIT ?3",
        )
        .bind(WORK_QUEUE)
        .bind(after)
        .bind(BATCH)
        .fetch_all(&mut file)
        .await?;
        let Some(last) = found.last() else {
            queued.notified().await;
            tokio::time::sleep(LINGER).await;
            continue;
        };
        after = last.0;
        let sequences = found.iter().map(|(sequence, ..)| *sequence).collect();
        let rows = found.into_iter().map(|(_, id, at, body)| Row::read(Uuid::from_slice(&id)?, at, body));
        let (done, committed) = oneshot::channel();
        let _ = jobs.send(Job::Apply { rows: rows.collect::<Result<_>>()?, sequences, done });
        committed.await.context("the writer ended")?;
    }
}

/// A JSON array of small values, and a blob they point into.
#[derive(Default)]
struct Columns {
    json: Vec<u8>,
    blob: Vec<u8>,
}

impl Columns {
    /// Where `substr` finds the bytes.
    fn put(&mut self, bytes: &[u8]) -> usize {
        self.blob.extend_from_slice(bytes);
        self.blob.len() - bytes.len() + 1
    }

    fn row(&mut self, row: &impl Serialize) -> Result<()> {
        self.json.push(if self.json.is_empty() { b'[' } else { b',' });
        Ok(serde_json::to_writer(&mut self.json, row)?)
    }

    async fn run(mut self, file: &mut SqliteConnection, sql: &'static str) -> Result<()> {
        self.json.push(b']');
        let json = String::from_utf8(self.json)?;
        sqlx::query(sql).bind(json).bind(self.blob).bind(clock::now_us()).execute(file).await?;
        Ok(())
    }
}

async fn write_queue(file: &mut SqliteConnection, bodies: &[(String, Bytes)]) -> Result<()> {
    let now = clock::now_us();
    let mut columns = Columns::default();
    for (event_id, body) in bodies {
        let moment = uuid::Timestamp::from_unix(uuid::NoContext, now.unsigned_abs() / 1_000_000, 0);
        let at = columns.put(Uuid::new_v7(moment).as_bytes());
        columns.put(&Sha256::digest(body));
        columns.put(body);
        columns.row(&(event_id, at, body.len(), WORK_QUEUE, SOURCE, TYPE, FACTS))?;
    }
    columns
        .run(
            file,
            "INSERT INTO queue (name, id, source, event_id, type, received_at_us, generation, attempts, body_digest,
                                facts, body)
             SELECT value ->> 3, substr(?2, value ->> 1, 16), value ->> 4, value ->> 0, value ->> 5, ?3, 0, 0,
                    substr(?2, (value ->> 1) + 16, 32), value ->> 6, substr(?2, (value ->> 1) + 48, value ->> 2)
             FROM jsonb_each(?1)",
        )
        .await
}

async fn write_batch(file: &mut SqliteConnection, rows: &[Row], sequences: &[i64]) -> Result<()> {
    let (mut log, mut bytes, mut history) = (Columns::default(), Columns::default(), Columns::default());
    for row in rows {
        let at = log.put(row.id.as_bytes());
        log.put(&row.body_digest);
        log.row(&(at, SOURCE, &row.event_id, TYPE, row.received_at_us))?;
        let at = bytes.put(row.id.as_bytes());
        bytes.put(&row.body);
        bytes.row(&(at, row.body.len(), FACTS))?;
        let at = history.put(row.id.as_bytes());
        history.put(&row.order_key);
        history.row(&(at, row.order_key.len(), SOURCE, ENTITY, &row.key, &row.version, VERDICT))?;
    }
    log.run(file, INSERT_EVENTS).await?;
    bytes.run(file, INSERT_BODIES).await?;
    history.run(file, INSERT_CHANGES).await?;
    let mut entities = Columns::default();
    for row in winners(rows) {
        let at = entities.put(row.id.as_bytes());
        entities.put(&row.state_digest);
        entities.put(&row.order_key);
        entities.row(&(at, row.order_key.len(), ENTITY, &row.key, &row.version, &row.state))?;
    }
    entities.run(file, UPSERT_ENTITIES).await?;
    let sequences = serde_json::to_string(sequences)?;
    let delete = "DELETE FROM queue WHERE sequence IN (SELECT value FROM json_each(?))";
    sqlx::query(delete).bind(sequences).execute(file).await?;
    Ok(())
}

const INSERT_EVENTS: &str = "
INSERT INTO events (id, body_digest, source, event_id, type, received_at_us, status, generation, deliveries, attempts,
                    settled_at_us, stored_at_us)
SELECT substr(?2, value ->> 0, 16), substr(?2, (value ->> 0) + 16, 32), value ->> 1, value ->> 2, value ->> 3,
       value ->> 4, 'applied', 0, 1, 1, ?3, ?3
FROM jsonb_each(?1) WHERE true ON CONFLICT DO NOTHING";

const INSERT_BODIES: &str = "
INSERT INTO bodies (id, stored_at_us, facts, body)
SELECT substr(?2, value ->> 0, 16), ?3, value ->> 2, substr(?2, (value ->> 0) + 16, value ->> 1) FROM jsonb_each(?1)";

const INSERT_CHANGES: &str = "
INSERT INTO changes (event, at_us, generation, ordinal, source, entity, key, version, verdict, order_key)
SELECT substr(?2, value ->> 0, 16), ?3, 0, 0, value ->> 2, value ->> 3, value ->> 4, value ->> 5, value ->> 6,
       substr(?2, (value ->> 0) + 16, value ->> 1)
FROM jsonb_each(?1)";

const UPSERT_ENTITIES: &str = "
INSERT INTO entities (entity, key, version, state, deleted, event, state_digest, order_key, updated_at_us)
SELECT value ->> 2, value ->> 3, value ->> 4, value ->> 5, 0, substr(?2, value ->> 0, 16),
       substr(?2, (value ->> 0) + 16, 32), substr(?2, (value ->> 0) + 48, value ->> 1), ?3
FROM jsonb_each(?1) WHERE true
ON CONFLICT (entity, key) DO UPDATE SET
    version = excluded.version, state = excluded.state, event = excluded.event, state_digest = excluded.state_digest,
    order_key = excluded.order_key, updated_at_us = excluded.updated_at_us
WHERE entities.order_key < excluded.order_key";
