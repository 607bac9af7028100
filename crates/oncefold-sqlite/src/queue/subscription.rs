use super::lines::{Line, Lines};
use super::settle::{self, Beginning, End, Settlements};
use crate::SqliteBackend;
use crate::error::{queue_error, store_error};
use crate::rows::array;
use crate::writer::{Writer, closed};
use async_trait::async_trait;
use bytes::Bytes;
use futures_util::TryStreamExt;
use oncefold_core::id::{Digest, EventUuid, SourceName};
use oncefold_core::limits::DELIVERY_LIMIT;
use oncefold_core::message::{FactsJson, Message};
use oncefold_core::queue::{Death, Prefetch, QueueError, QueueName, Received, Settlement, Subscription, Tag};
use oncefold_core::store::StoreError;
use oncefold_core::time::Timestamp;
use sqlx::SqlitePool;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{oneshot, watch};
use tokio::time::{Instant, timeout, timeout_at};

/// How often the queue is looked at though nothing is known to have come: another process may have put it there.
const POLL: Duration = Duration::from_secs(1);

/// A row as it is stored.
struct Row {
    sequence: i64,
    tries: i64,
    death: Option<String>,
    id: Vec<u8>,
    source: String,
    event_id: String,
    event_type: Option<String>,
    received_at_us: i64,
    generation: i64,
    attempts: i64,
    body_digest: Vec<u8>,
    facts: String,
    body: Vec<u8>,
}

/// A running consumer of one queue.
pub(super) struct SqliteSubscription {
    writer: Writer,
    readers: SqlitePool,
    lines: Arc<Lines>,
    line: Arc<Line>,
    prefetch: Prefetch,
    /// On the dead letters there is no limit of deliveries.
    limited: bool,
    arrivals: watch::Receiver<u64>,
    taken: VecDeque<Received>,
    /// Bytes of each message that is not settled.
    unsettled: HashMap<i64, usize>,
    bytes: usize,
    has_ended: bool,
}

impl SqliteSubscription {
    pub(super) async fn open(
        backend: &SqliteBackend,
        queue: &QueueName,
        prefetch: Prefetch,
    ) -> Result<Self, StoreError> {
        let line = backend.lines.line(&queue.to_string());
        let (begun, has_begun) = oneshot::channel();
        line.come(|first| {
            let (name, before) = (line.name.clone(), backend.lines.first_own());
            let beginning = Beginning { name, first, before, prefetch: i64::from(prefetch.messages) };
            backend.writer.send(
                beginning,
                |conn, beginning| Box::pin(settle::begin(conn, beginning)),
                |outcome| drop(begun.send(outcome)),
            );
        });
        let subscription = Self {
            writer: backend.writer.clone(),
            readers: backend.readers.clone(),
            lines: backend.lines.clone(),
            arrivals: line.watch(),
            line,
            prefetch,
            limited: *queue != QueueName::Dead,
            taken: VecDeque::new(),
            unsettled: HashMap::new(),
            bytes: 0,
            has_ended: false,
        };
        has_begun.await.unwrap_or_else(|_| Err(closed()))?;
        Ok(subscription)
    }

    /// Takes rows until `max` messages are there to be given, as far as the prefetch allows. What was taken is held
    /// without an await in between, so that cancelling loses nothing. Tells whether rows were given up instead: then
    /// there may be more behind them.
    async fn take(&mut self, max: usize) -> Result<bool, StoreError> {
        let line = self.line.clone();
        let room = usize::from(self.prefetch.messages.max(1)).saturating_sub(self.unsettled.len());
        let limit = room.min(max.saturating_sub(self.taken.len()));
        if limit == 0 || !self.has_room() {
            return Ok(false);
        }
        let taking = line.taking.lock().await;
        let rows = self.read(limit).await?;
        let mut given_up = Vec::new();
        for row in rows {
            let (sequence, bytes) = (row.sequence, row.body.len());
            if self.limited && row.tries >= i64::from(DELIVERY_LIMIT) {
                line.hold(sequence, None);
                given_up.push(sequence);
            } else {
                let received = received(row);
                line.hold(sequence, received.message.as_ref().ok());
                self.bytes += bytes;
                self.unsettled.insert(sequence, bytes);
                self.taken.push_back(received);
            }
        }
        drop(taking);
        let gave_up = !given_up.is_empty();
        if gave_up {
            self.give_up(given_up);
        }
        Ok(gave_up)
    }

    fn has_room(&self) -> bool {
        let held = self.unsettled.len();
        held == 0 || (held < usize::from(self.prefetch.messages) && self.bytes < self.prefetch.bytes)
    }

    async fn read(&self, limit: usize) -> Result<Vec<Row>, StoreError> {
        let (after, held) = self.line.position();
        let (name, held, limit) = (self.line.name.as_str(), array(held), i64::try_from(limit).unwrap_or(i64::MAX));
        let mut found = sqlx::query_as!(
            Row,
            r#"SELECT sequence, tries, death, id, source, event_id, type AS event_type, received_at_us, generation,
                      attempts, body_digest, facts, body
               FROM queue
               WHERE name = ?1 AND sequence > ?2 AND sequence NOT IN (SELECT value FROM json_each(?3))
               ORDER BY sequence LIMIT ?4"#,
            name,
            after,
            held,
            limit
        )
        .fetch(&self.readers);
        let mut rows: Vec<Row> = Vec::new();
        let mut bytes = self.bytes;
        while let Some(row) = found.try_next().await.map_err(store_error)? {
            let first = rows.is_empty() && self.unsettled.is_empty();
            bytes += row.body.len();
            if bytes > self.prefetch.bytes && !first {
                break;
            }
            rows.push(row);
        }
        Ok(rows)
    }

    /// Moves what reached the limit of deliveries to the dead letters.
    fn give_up(&self, sequences: Vec<i64>) {
        let (line, lines, given_up) = (self.line.clone(), self.lines.clone(), sequences.clone());
        self.writer.send(
            sequences,
            |conn, sequences| Box::pin(settle::bury(conn, sequences, "delivery_limit")),
            move |outcome| match outcome {
                Ok(()) => {
                    line.forget(&given_up);
                    lines.line(&QueueName::Dead.to_string()).arrived(given_up.len() as u64);
                }
                Err(_) => line.give_back(&given_up),
            },
        );
    }

    /// Gives everything unsettled back, one try counted.
    fn end(&mut self, done: impl FnOnce() + Send + 'static) {
        if std::mem::replace(&mut self.has_ended, true) {
            return;
        }
        let held: Vec<i64> = self.unsettled.drain().map(|(sequence, _)| sequence).collect();
        let (line, returned) = (self.line.clone(), held.clone());
        self.line.go(|last| {
            let end = End { held, last_of: last.then(|| line.name.clone()) };
            self.writer.send(
                end,
                |conn, end| Box::pin(settle::end(conn, end)),
                move |_| {
                    line.give_back(&returned);
                    done();
                },
            );
        });
    }
}

#[async_trait]
impl Subscription for SqliteSubscription {
    async fn receive(&mut self, max: usize, linger: Duration) -> Result<Vec<Received>, QueueError> {
        let max = max.max(1);
        loop {
            self.arrivals.mark_unchanged();
            let gave_up = self.take(max).await.map_err(queue_error)?;
            if !self.taken.is_empty() {
                break;
            }
            if !gave_up {
                let _ = timeout(POLL, self.arrivals.changed()).await;
            }
        }
        let deadline = Instant::now() + linger;
        while self.taken.len() < max && self.has_room() {
            // Looking again at each arrival would cost more than it brings: only when enough have come, or at the end.
            let missing = (max - self.taken.len()) as u64;
            let enough = *self.arrivals.borrow() + missing;
            let in_time = timeout_at(deadline, self.arrivals.wait_for(|arrivals| *arrivals >= enough)).await.is_ok();
            self.take(max).await.map_err(queue_error)?;
            if !in_time {
                break;
            }
        }
        let count = max.min(self.taken.len());
        Ok(self.taken.drain(..count).collect())
    }

    async fn settle(&mut self, settlements: Vec<(Tag, Settlement)>) -> Result<(), QueueError> {
        let mut rows = Settlements::default();
        for (tag, settlement) in &settlements {
            let Ok(sequence) = i64::try_from(tag.0) else { continue };
            match settlement {
                _ if !self.unsettled.contains_key(&sequence) => {}
                Settlement::Ack => rows.acked.push(sequence),
                Settlement::Reject => rows.rejected.push(sequence),
            }
        }
        let rejected = rows.rejected.len() as u64;
        let gone: Vec<i64> = rows.acked.iter().chain(&rows.rejected).copied().collect();
        // Most went with their verdicts, in that transaction.
        rows.acked = self.line.left_of(rows.acked);
        if !rows.acked.is_empty() || rejected > 0 {
            self.writer.run(rows, |conn, rows| Box::pin(settle::settle(conn, rows))).await.map_err(queue_error)?;
        }
        self.line.forget(&gone);
        for sequence in &gone {
            self.bytes -= self.unsettled.remove(sequence).unwrap_or(0);
        }
        if rejected > 0 {
            self.lines.line(&QueueName::Dead.to_string()).arrived(rejected);
        }
        Ok(())
    }

    async fn close(mut self: Box<Self>) {
        let (done, closed) = oneshot::channel();
        self.end(move || {
            let _ = done.send(());
        });
        let _ = closed.await;
    }
}

impl Drop for SqliteSubscription {
    fn drop(&mut self) {
        self.end(|| {});
    }
}

fn received(row: Row) -> Received {
    let death = match row.death.as_deref() {
        Some("rejected") => Some(Death::Rejected),
        Some(_) => Some(Death::DeliveryLimit),
        None => None,
    };
    let tag = Tag(row.sequence.unsigned_abs());
    Received { tag, message: message(row).map_err(|what| format!("its {what} is none of ours").into()), death }
}

fn message(row: Row) -> Result<Message, &'static str> {
    Ok(Message {
        id: EventUuid::from_bytes(row.id.try_into().map_err(|_| "id")?),
        source: SourceName::parse(&row.source).map_err(|_| "source")?,
        event_id: row.event_id,
        event_type: row.event_type,
        received_at: Timestamp::from_micros(row.received_at_us),
        generation: u32::try_from(row.generation).map_err(|_| "generation")?,
        attempts: u32::try_from(row.attempts).map_err(|_| "count of attempts")?,
        digest: Digest::try_from(&row.body_digest[..]).map_err(|_| "digest")?,
        facts: FactsJson::from_text(row.facts),
        body: Bytes::from(row.body),
    })
}
