//! The load generator: HTTP/1.1 over plain sockets, a fixed number of connections.
//!
//! Closed loop: each connection sends as soon as it is answered. At a rate: requests have moments of their own; one that
//! cannot leave in time because every connection waits for an answer is measured from its moment, not from when it left
//! (no coordinated omission).

use crate::event::Traffic;
use anyhow::{Context as _, Result, bail};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

/// Connections of every load.
pub const CONNECTIONS: usize = 64;
/// Timers fire this late at most on an idle machine; a request that waited for its moment and leaves this much later is
/// measured from when it left.
const TIMER_SLACK: Duration = Duration::from_millis(2);
const ANSWER_MAX: Duration = Duration::from_secs(20);

/// How fast.
#[derive(Clone, Copy, Debug)]
pub enum Pace {
    Closed,
    PerSecond(f64),
}

/// How long.
#[derive(Clone, Copy, Debug)]
pub enum Length {
    /// So many requests.
    Count(u64),
    /// So long, of which the first part warms up and is not measured.
    Time { warm: Duration, measured: Duration },
}

/// A load to put on somebody.
pub struct Load {
    pub target: SocketAddr,
    pub path: &'static str,
    /// The number of the first event.
    pub first: u64,
    pub pace: Pace,
    pub length: Length,
    /// While it holds false, nothing is sent.
    pub gate: Option<watch::Receiver<bool>>,
}

/// What came of a load.
#[derive(Debug, Default)]
pub struct Sent {
    /// Numbers of events that were answered 2xx, warming up included.
    pub acked: Vec<u64>,
    /// Other answers, and broken connections.
    pub failed: u64,
    /// Of what was measured: from the moment it was due to its answer.
    pub latencies_us: Vec<u64>,
    /// Seconds that were measured.
    pub seconds: f64,
}

impl Sent {
    /// Acked events per second.
    pub fn rate(&self) -> f64 {
        self.latencies_us.len() as f64 / self.seconds
    }

    /// Fails where anything was not acked.
    pub fn expect_all_acked(self) -> Result<Self> {
        if self.failed > 0 {
            bail!("{} deliveries were not acked ({} were)", self.failed, self.acked.len());
        }
        Ok(self)
    }
}

struct Shared {
    load: Load,
    traffic: Traffic,
    next: AtomicU64,
    start: Instant,
    measured_from: Instant,
    end: Option<Instant>,
    last: Option<u64>,
}

impl Load {
    /// Puts it on.
    pub async fn run(self) -> Result<Sent> {
        let start = Instant::now();
        let (measured_from, end, last) = match self.length {
            Length::Count(count) => (start, None, Some(self.first + count)),
            Length::Time { warm, measured } => (start + warm, Some(start + warm + measured), None),
        };
        let next = AtomicU64::new(self.first);
        let traffic = Traffic::prepare()?;
        let shared = Arc::new(Shared { load: self, traffic, next, start, measured_from, end, last });
        let tasks: Vec<_> = (0..CONNECTIONS).map(|_| tokio::spawn(connection(Arc::clone(&shared)))).collect();
        let mut sent = Sent::default();
        for task in tasks {
            let part = task.await.context("a connection's task")??;
            sent.acked.extend(part.acked);
            sent.latencies_us.extend(part.latencies_us);
            sent.failed += part.failed;
        }
        sent.seconds = shared.end.map_or(start.elapsed(), |end| end - measured_from).as_secs_f64();
        Ok(sent)
    }
}

async fn connection(shared: Arc<Shared>) -> Result<Sent> {
    let Load { target, path, .. } = shared.load;
    let mut gate = shared.load.gate.clone();
    let mut sent = Sent::default();
    let mut stream = connect(target).await?;
    let (mut request, mut answer) = (Vec::with_capacity(4096), Vec::with_capacity(4096));
    loop {
        if let Some(gate) = &mut gate {
            gate.wait_for(|open| *open).await.context("the gate is gone")?;
        }
        let n = shared.next.fetch_add(1, Ordering::Relaxed);
        if shared.last.is_some_and(|last| n >= last) {
            return Ok(sent);
        }
        request.clear();
        shared.traffic.request(n, path, &mut request);
        let due = shared.wait_for(n).await;
        if shared.end.is_some_and(|end| due >= end) {
            return Ok(sent);
        }
        let exchange = tokio::time::timeout(ANSWER_MAX, exchange(&mut stream, &request, &mut answer)).await;
        let answered = Instant::now();
        let measured = due >= shared.measured_from && shared.end.is_none_or(|end| answered < end);
        match exchange {
            Ok(Ok(Answer { status: 200..300, closes })) => {
                sent.acked.push(n);
                if measured {
                    sent.latencies_us.push(u64::try_from((answered - due).as_micros()).unwrap_or(u64::MAX));
                }
                if closes {
                    stream = connect(target).await?;
                }
            }
            _ => {
                sent.failed += 1;
                stream = connect(target).await?;
            }
        }
    }
}

impl Shared {
    /// Waits until request `n` is due; answers the moment it is measured from.
    async fn wait_for(&self, n: u64) -> Instant {
        let Pace::PerSecond(rate) = self.load.pace else { return Instant::now() };
        let due = self.start + Duration::from_secs_f64((n - self.load.first) as f64 / rate);
        if due <= Instant::now() {
            return due;
        }
        sleep_until(due).await;
        let now = Instant::now();
        if now - due < TIMER_SLACK { now } else { due }
    }
}

async fn connect(target: SocketAddr) -> Result<TcpStream> {
    let stream = TcpStream::connect(target).await.with_context(|| format!("cannot connect to {target}"))?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

#[derive(Debug, PartialEq)]
struct Answer {
    status: u16,
    closes: bool,
}

async fn exchange(stream: &mut TcpStream, request: &[u8], answer: &mut Vec<u8>) -> Result<Answer> {
    stream.write_all(request).await?;
    answer.clear();
    loop {
        if stream.read_buf(answer).await? == 0 {
            bail!("closed before the answer");
        }
        if let Some(answer) = complete(answer)? {
            return Ok(answer);
        }
    }
}

/// The answer, once it is whole.
fn complete(bytes: &[u8]) -> Result<Option<Answer>> {
    let Some(head) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else { return Ok(None) };
    let text = std::str::from_utf8(&bytes[..head]).context("an answer's head")?;
    let status = text.get(9..12).and_then(|digits| digits.parse().ok()).context("an answer's status")?;
    let header = |name: &str| {
        let lines = text.lines().skip(1).filter_map(|line| line.split_once(':'));
        lines.filter(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim()).next()
    };
    let length: usize = header("content-length").map_or(Ok(0), str::parse).context("an answer's length")?;
    let closes = header("connection").is_some_and(|value| value.eq_ignore_ascii_case("close"));
    Ok((bytes.len() >= head + 4 + length).then_some(Answer { status, closes }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_complete_with_its_last_byte() {
        let bytes = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok";
        for end in 0..bytes.len() {
            assert_eq!(complete(&bytes[..end]).unwrap(), None, "{end}");
        }
        assert_eq!(complete(bytes).unwrap(), Some(Answer { status: 200, closes: true }));
    }

    /// A server that stalls once: with 64 connections blocked, what was due meanwhile counts from its moment.
    #[tokio::test]
    async fn waiting_for_a_free_connection_is_measured() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let target = listener.local_addr().unwrap();
        tokio::spawn(async move {
            loop {
                let Ok((mut stream, _)) = listener.accept().await else { return };
                tokio::spawn(async move {
                    let mut bytes = vec![0; 8192];
                    tokio::time::sleep(Duration::from_millis(400)).await;
                    while stream.read(&mut bytes).await.is_ok_and(|n| n > 0) {
                        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
                    }
                });
            }
        });
        let length = Length::Count(400);
        let load = Load { target, path: "/", first: 0, pace: Pace::PerSecond(1000.0), length, gate: None };
        let mut sent = load.run().await.unwrap().expect_all_acked().unwrap();
        // 400 requests in 400 ms; the first 64 take every connection until 400 ms have passed.
        let median = crate::stats::quantile(&mut sent.latencies_us, 0.5);
        assert!(median > 150_000, "{median} us: what waited for a connection was forgotten");
        assert_eq!(sent.acked.len(), 400);
    }
}
