//! A running intake on a real socket, a client that writes raw bytes, and every log line the process wrote.

use crate::fakes::{Behaviour, Counting, Fake, NOW_S, StoppedClock, fake};
use http::Method;
use oncefold_core::locator::Locator;
use oncefold_core::model::{BodyFormat, IdRule};
use oncefold_core::store::RejectedStore;
use oncefold_core::{Clock, Source, SourceName};
use oncefold_ingest::{
    Ingest, IngestError, IngestHealth, IngestParts, IngestSettings, IntakeSource, KeyRing, Outbound, Respond,
    SourceKeys, build,
};
use oncefold_signature::{
    Handshake, Request, Scheme, Secret, StandardWebhooks, TokenPlace, TokenScheme, TrustRoots, UnixTime,
};
use oncefold_telemetry::Metrics;
use std::collections::HashMap;
use std::io::Write;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, Once};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// Nothing in these tests takes longer.
pub const DEADLINE: Duration = Duration::from_secs(20);
pub const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
pub const TOKEN: &str = "t0ken-nobody-may-see";

/// A source of this scheme whose events carry `/id` and `/type`.
pub fn source(name: &str, scheme: &Scheme, secret: &str) -> IntakeSource {
    let place = scheme.credential_place();
    let named = |wanted: &TokenPlace| match wanted {
        TokenPlace::Header(name) | TokenPlace::Query(name) => vec![name.clone()],
        TokenPlace::Path => vec![],
    };
    let secrets = if *scheme == Scheme::None { vec![] } else { vec![Secret::new(secret).unwrap()] };
    IntakeSource {
        model: Source {
            name: SourceName::parse(name).unwrap(),
            id: IdRule::Parts(vec![Locator::parse("/id").unwrap()]),
            event_type: Locator::parse("/type").unwrap(),
            format: BodyFormat::Json,
            projections: vec![],
        },
        keys: keys(scheme, secrets, None),
        split: None,
        takes_gzip: false,
        methods: vec![Method::POST],
        respond: Respond::default(),
        public_url: None,
        path_token: place == Some(TokenPlace::Path),
        redact_headers: place.iter().filter(|p| matches!(p, TokenPlace::Header(_))).flat_map(named).collect(),
        redact_query: place.iter().filter(|p| matches!(p, TokenPlace::Query(_))).flat_map(named).collect(),
    }
}

/// The keys of a scheme.
pub fn keys(scheme: &Scheme, secrets: Vec<Secret>, handshake: Option<Handshake>) -> SourceKeys {
    let verifier = scheme.prepare(&secrets).unwrap();
    SourceKeys { verifier, scheme_name: scheme.name().to_owned(), secrets, handshake }
}

pub fn svix() -> Scheme {
    Scheme::StandardWebhooks(StandardWebhooks::default())
}

pub fn token(place: TokenPlace) -> Scheme {
    Scheme::Token(TokenScheme { place, prefix: String::new() })
}

/// Headers that a Svix sender would put on this body at this time, as lines.
pub fn svix_lines(body: &[u8], at_s: i64) -> String {
    let request = Request { method: "POST", url: None, query: "", path_token: None, headers: &[], body };
    let signed = svix().sign(&Secret::new(SECRET).unwrap(), "msg_1", &request, UnixTime::from_secs(at_s)).unwrap();
    signed.headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect()
}

/// The bytes of a POST with these header lines.
pub fn post(path: &str, lines: &str, body: &[u8]) -> Vec<u8> {
    let head = format!("POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n{lines}\r\n", body.len());
    [head.as_bytes(), body].concat()
}

/// The bytes of a POST that a Svix sender signed now.
pub fn signed(path: &str, body: &[u8]) -> Vec<u8> {
    post(path, &svix_lines(body, NOW_S), body)
}

/// The bytes of a POST in chunks of these sizes.
pub fn chunked(path: &str, sizes: &[usize]) -> Vec<u8> {
    let mut bytes = format!("POST {path} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n").into_bytes();
    for size in sizes {
        bytes.extend(format!("{size:x}\r\n").bytes());
        bytes.extend(vec![b'x'; *size]);
        bytes.extend(b"\r\n");
    }
    bytes.extend(b"0\r\n\r\n");
    bytes
}

/// A running intake.
pub struct Intake {
    pub address: SocketAddr,
    pub queue: Arc<Fake>,
    pub spool: Arc<Fake>,
    pub metrics: Arc<Metrics>,
    pub health: IngestHealth,
    pub key_ring: KeyRing,
    pub soft: CancellationToken,
    pub hard: CancellationToken,
    pub running: JoinHandle<Result<(), IngestError>>,
}

pub struct Setup {
    pub settings: IngestSettings,
    pub sources: Vec<IntakeSource>,
    pub queue: Behaviour,
    pub spool: Option<Behaviour>,
    pub rejected: Option<Arc<dyn RejectedStore>>,
    pub outbound: Option<Arc<dyn Outbound>>,
    pub roots: TrustRoots,
    pub clock: Arc<dyn Clock>,
}

impl Setup {
    /// One source, a queue that takes everything, a spool that does too.
    pub fn of(sources: Vec<IntakeSource>) -> Self {
        capture_logs();
        let settings = IngestSettings::listening_on(SocketAddr::from(([127, 0, 0, 1], 0)));
        Self {
            settings,
            sources,
            queue: Behaviour::Take,
            spool: Some(Behaviour::Take),
            rejected: None,
            outbound: None,
            roots: TrustRoots::of([]),
            clock: Arc::new(StoppedClock),
        }
    }

    pub async fn build(self) -> Result<Ingest, IngestError> {
        let (queue, metrics) = (fake(self.queue.clone()), Arc::new(Metrics::register("0").unwrap()));
        self.build_with(queue, None, metrics).await
    }

    async fn build_with(
        self,
        queue: Arc<Fake>,
        spool: Option<Arc<Fake>>,
        metrics: Arc<Metrics>,
    ) -> Result<Ingest, IngestError> {
        build(IngestParts {
            settings: self.settings,
            sources: self.sources,
            publisher: queue,
            spool: spool.map(|spool| spool as _),
            rejected: self.rejected,
            outbound: self.outbound,
            roots: self.roots,
            clock: self.clock,
            entropy: Arc::new(Counting::default()),
            metrics,
        })
        .await
    }

    pub async fn start(self) -> Intake {
        let queue = fake(self.queue.clone());
        let spool = fake(self.spool.clone().unwrap_or(Behaviour::Fail));
        let given = self.spool.is_some().then(|| spool.clone());
        let metrics = Arc::new(Metrics::register("0").unwrap());
        let ingest = self.build_with(queue.clone(), given, metrics.clone()).await.unwrap();
        let (soft, hard) = (CancellationToken::new(), CancellationToken::new());
        let (address, health, key_ring) = (ingest.local_addr(), ingest.health(), ingest.key_ring());
        let running = tokio::spawn(ingest.run_until_stopped(soft.clone(), hard.clone()));
        Intake { address, queue, spool, metrics, health, key_ring, soft, hard, running }
    }
}

impl Intake {
    pub async fn connect(&self) -> Client {
        Client { stream: TcpStream::connect(self.address).await.unwrap(), read: vec![] }
    }

    /// One request on a connection of its own.
    pub async fn ask(&self, request: &[u8]) -> Answer {
        let mut client = self.connect().await;
        client.send(request).await;
        client.answer().await.expect("an answer")
    }

    pub fn counted(&self, source: &str, outcome: &str) -> u64 {
        self.metrics.ingest_deliveries.with_label_values(&[source, outcome]).get()
    }
}

/// One HTTP answer.
#[derive(Clone, Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: HashMap<String, String>,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn problem(&self) -> serde_json::Value {
        assert_eq!(self.headers["content-type"], "application/problem+json");
        serde_json::from_slice(&self.body).unwrap()
    }
}

/// A connection that writes raw bytes.
pub struct Client {
    pub stream: TcpStream,
    read: Vec<u8>,
}

impl Client {
    pub async fn send(&mut self, bytes: &[u8]) {
        timeout(DEADLINE, self.stream.write_all(bytes)).await.expect("written in time").expect("written");
    }

    /// The next answer's head, where no body follows.
    pub async fn head(&mut self) -> Answer {
        let (mut answer, head_end) = self.read_head().await.expect("a head");
        self.read.drain(..head_end + 4);
        answer.body = vec![];
        answer
    }

    /// The next answer; nothing where the connection ended before one.
    pub async fn answer(&mut self) -> Option<Answer> {
        let (mut answer, head_end) = self.read_head().await?;
        let length = answer.headers.get("content-length").map_or(0, |length| length.parse::<usize>().unwrap());
        let end = head_end + 4 + length;
        self.read_until(|read| (read.len() >= end).then_some(end)).await?;
        answer.body = self.read[head_end + 4..end].to_vec();
        self.read.drain(..end);
        Some(answer)
    }

    async fn read_head(&mut self) -> Option<(Answer, usize)> {
        let head_end = self.read_until(|read| read.windows(4).position(|w| w == b"\r\n\r\n")).await?;
        let head = String::from_utf8(self.read[..head_end].to_vec()).unwrap();
        let mut lines = head.split("\r\n");
        let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
        let header = |line: &str| line.split_once(": ").map(|(n, v)| (n.to_ascii_lowercase(), v.to_owned())).unwrap();
        Some((Answer { status, headers: lines.map(header).collect(), body: vec![] }, head_end))
    }

    /// Whether the peer has closed and nothing more is to be read.
    pub async fn is_at_end(&mut self) -> bool {
        self.read_until(|read| (!read.is_empty()).then_some(0)).await.is_none()
    }

    async fn read_until(&mut self, found: impl Fn(&[u8]) -> Option<usize>) -> Option<usize> {
        loop {
            if let Some(at) = found(&self.read) {
                return Some(at);
            }
            let read = timeout(DEADLINE, self.stream.read_buf(&mut self.read)).await.expect("an answer in time");
            if !matches!(read, Ok(1..)) {
                return None;
            }
        }
    }
}

/// Polls until it holds.
pub async fn eventually(what: &str, holds: impl Fn() -> bool) {
    let polled = timeout(DEADLINE, async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    });
    polled.await.unwrap_or_else(|_| panic!("not in time: {what}"));
}

static LOGS: Mutex<Vec<u8>> = Mutex::new(vec![]);

struct Log;

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        LOGS.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Everything of our crates down to the noisiest level.
fn capture_logs() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let subscriber = tracing_subscriber::fmt().json().with_env_filter("oncefold=trace").with_writer(|| Log);
        tracing::subscriber::set_global_default(subscriber.finish()).unwrap();
    });
}

/// Our own lines about this source.
pub fn lines_about(source: &str) -> Vec<serde_json::Value> {
    let text = String::from_utf8(LOGS.lock().unwrap().clone()).unwrap();
    let lines = text.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    lines.filter(|line| line["target"] == "oncefold::ingest" && line["fields"]["source"] == source).collect()
}

/// Every line as text.
pub fn log_text() -> String {
    String::from_utf8(LOGS.lock().unwrap().clone()).unwrap()
}
