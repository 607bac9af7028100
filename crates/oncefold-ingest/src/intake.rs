//! From a request's head to its body: which source, whether it takes such a request, and one tally of how it ended.

use crate::answer::{self, AnswerContext, NotSpooled, Refusal, Response};
use crate::body::{self, BodyLimits};
use crate::certificates::Certificates;
use crate::delivery::Delivery;
use crate::detached::Detached;
use crate::events::KeptEvent;
use crate::inflate::Encoding;
use crate::outbound::Outbound;
use crate::outcome::Outcome;
use crate::recorder::{Recorder, identity_reads_body};
use crate::rejections::RejectedLog;
use crate::report::{self, LineBudget};
use crate::settings::{IngestSettings, IntakeSource, SourceKeys};
use crate::spooler::Spooler;
use bytes::Bytes;
use http::Request;
use http::request::Parts;
use hyper::body::Body;
use oncefold_core::outline::Outline;
use oncefold_core::queue::{PublishError, Publisher};
use oncefold_core::{Clock, Entropy, Message, Timestamp, prepare};
use oncefold_signature::{Answer, Handshake};
use oncefold_telemetry::{Histogram, IntCounter, Metrics};
use percent_encoding::percent_decode_str;
use std::collections::HashMap;
use std::error::Error;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::info;

/// The label of deliveries to sources that are not configured.
const UNKNOWN: &str = "unknown";

/// What every request needs.
pub(crate) struct Intake {
    pub(crate) settings: IngestSettings,
    pub(crate) sources: HashMap<String, Arc<SourceState>>,
    /// The budget of lines about unknown sources.
    pub(crate) unknown: LineBudget,
    pub(crate) publisher: Arc<dyn Publisher>,
    pub(crate) spooler: Option<Spooler>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) entropy: Arc<dyn Entropy>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) outbound: Option<Arc<dyn Outbound>>,
    pub(crate) certificates: Certificates,
    pub(crate) rejected: Option<RejectedLog>,
    pub(crate) body_limits: BodyLimits,
    /// Connections and deliveries in hand.
    pub(crate) tasks: TaskTracker,
    /// Drops everything in hand.
    pub(crate) abandon: CancellationToken,
}

/// One source with what is worked out of its settings once.
pub(crate) struct SourceState {
    pub(crate) settings: IntakeSource,
    pub(crate) recorder: Recorder,
    /// What is read of a body to tell id and type; nothing where they stand elsewhere.
    pub(crate) identity: Option<Outline>,
    lines: LineBudget,
    /// The budget of the rejected log.
    pub(crate) rejections: LineBudget,
    keys: RwLock<Arc<SourceKeys>>,
    usual: Usual,
}

/// The metrics of how most deliveries end, each looked up when it is first needed.
#[derive(Default)]
struct Usual {
    accepted: OnceLock<IntCounter>,
    ack_seconds: OnceLock<Histogram>,
    /// Of the first secret.
    secret_matches: OnceLock<IntCounter>,
}

impl SourceState {
    pub(crate) fn of(settings: IntakeSource) -> Self {
        let recorder = Recorder::of(&settings);
        let reads_body = identity_reads_body(&settings.model);
        let identity = reads_body.then(|| prepare::identity_outline(&settings.model));
        let keys = RwLock::new(Arc::new(settings.keys.clone()));
        Self {
            settings,
            recorder,
            identity,
            lines: LineBudget::full(),
            rejections: LineBudget::full(),
            keys,
            usual: Usual::default(),
        }
    }

    /// The keys of now: a delivery is judged by one set from its beginning to its end.
    pub(crate) fn keys(&self) -> Arc<SourceKeys> {
        Arc::clone(&self.keys.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn exchange(&self, keys: SourceKeys) {
        *self.keys.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(keys);
    }
}

/// Answers a request: `/in/{source}` and `/in/{source}/{token}`; everything else is an unknown source.
pub(crate) async fn receive<B>(intake: Arc<Intake>, request: Request<B>) -> Response
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Error + 'static,
{
    let (started, received_at) = (Instant::now(), intake.clock.now());
    let (parts, body) = request.into_parts();
    let place = Place::of(parts.uri.path());
    let mut trace = [0; 16];
    intake.entropy.fill(&mut trace);
    let mut tally = Tally {
        source: place.as_ref().and_then(|place| intake.source_at(place)),
        name: place.as_ref().map(|place| place.name.to_owned()),
        trace: hex::encode(trace),
        intake: Arc::clone(&intake),
        started,
        ends_as: Some(Refusal::Disconnected),
    };
    let source = match intake.check_head(tally.source.as_ref(), &parts) {
        Ok(source) => Arc::clone(source),
        Err(refusal) => return tally.refuse(&refusal),
    };
    let body = match body::read(body, &intake.body_limits).await {
        Ok(body) => body,
        Err(refusal) => return tally.refuse(&refusal),
    };
    let path_token =
        place.and_then(|place| place.token).map(|token| percent_decode_str(token).decode_utf8_lossy().into_owned());
    // From here on the delivery is ours: a client that goes away does not cancel what was received whole.
    tally.ends_as = Some(Refusal::CutOff);
    let delivery = Delivery { source, parts, body, path_token, received_at, tally };
    let delivered = Detached::of(delivery.take(), Arc::clone(&intake)).await;
    delivered.unwrap_or_else(|| cut_off(&intake, &hex::encode(trace)))
}

/// The answer where what took the delivery panicked; the delivery counted and logged itself.
fn cut_off(intake: &Intake, trace: &str) -> Response {
    let retry_after = intake.settings.retry_after;
    Refusal::CutOff.answer(&AnswerContext {
        methods: &[],
        handshake_method: None,
        takes_gzip: false,
        bare_401: false,
        basic: false,
        retry_after,
        trace,
    })
}

/// Where a request points, as it stands in the path, undecoded: a source's name has nothing that needs encoding.
struct Place<'a> {
    name: &'a str,
    token: Option<&'a str>,
}

impl<'a> Place<'a> {
    fn of(path: &'a str) -> Option<Self> {
        let rest = path.strip_prefix("/in/")?;
        let (name, token) = rest.split_once('/').map_or((rest, None), |(name, token)| (name, Some(token)));
        Some(Self { name, token })
    }
}

impl Intake {
    fn source_at(&self, place: &Place<'_>) -> Option<Arc<SourceState>> {
        let source = self.sources.get(place.name)?;
        let fits = match place.token {
            None => true,
            Some(token) => source.settings.path_token && !token.is_empty() && !token.contains('/'),
        };
        fits.then(|| Arc::clone(source))
    }

    /// Everything that can be said before the body is read.
    fn check_head<'a>(
        &self,
        source: Option<&'a Arc<SourceState>>,
        parts: &Parts,
    ) -> Result<&'a Arc<SourceState>, Refusal> {
        let source = source.ok_or(Refusal::UnknownSource)?;
        let handshakes = || source.keys().handshake.as_ref().and_then(Handshake::method);
        if !source.settings.methods.contains(&parts.method) && handshakes() != Some(parts.method.as_str()) {
            return Err(Refusal::WrongMethod);
        }
        match Encoding::of(&parts.headers) {
            Encoding::Identity => Ok(source),
            Encoding::Gzip if source.settings.takes_gzip => Ok(source),
            Encoding::Gzip | Encoding::Other => Err(Refusal::UnsupportedEncoding),
        }
    }

    /// Makes the event durable: in the queue, else in the spool.
    pub(crate) async fn keep(&self, message: &Arc<Message>) -> Result<Kept, Refusal> {
        let published_from = Instant::now();
        let deadline = self.settings.publish_timeout;
        let published = timeout(deadline, self.publisher.publish(Arc::clone(message))).await;
        let error = match published.unwrap_or(Err(PublishError::TimedOut(deadline))) {
            Ok(()) => {
                self.metrics.publish_seconds.observe(published_from.elapsed().as_secs_f64());
                return Ok(Kept::InQueue);
            }
            Err(error) => error,
        };
        let Some(spooler) = &self.spooler else { return Err(Refusal::Unavailable(error, NotSpooled::NoSpool)) };
        match spooler.keep(Arc::clone(message)).await {
            Ok(()) => {
                self.metrics.spooled.inc();
                Ok(Kept::InSpool(error))
            }
            Err(not_spooled) => Err(Refusal::Unavailable(error, not_spooled)),
        }
    }

    /// Writes how many log lines were left out.
    pub(crate) fn settle_lines(&self) {
        self.unknown.settle(UNKNOWN);
        self.sources.iter().for_each(|(name, source)| source.lines.settle(name));
    }
}

/// Where an accepted event is.
pub(crate) enum Kept {
    InQueue,
    /// And why the queue did not take it.
    InSpool(PublishError),
}

/// Counts and logs how a delivery ended, exactly once, whatever becomes of the future that holds it.
pub(crate) struct Tally {
    pub(crate) intake: Arc<Intake>,
    source: Option<Arc<SourceState>>,
    name: Option<String>,
    trace: String,
    started: Instant,
    /// What it ended as if this is dropped now.
    ends_as: Option<Refusal>,
}

impl Tally {
    pub(crate) fn trace(&self) -> &str {
        &self.trace
    }

    pub(crate) fn refuse(mut self, refusal: &Refusal) -> Response {
        self.ends_as = None;
        self.note(refusal);
        self.answer(refusal)
    }

    /// Counts which of the source's secrets matched, each once a delivery.
    pub(crate) fn count_secrets(&self, matched: impl Iterator<Item = usize>) {
        let mut matched: Vec<usize> = matched.collect();
        matched.sort_unstable();
        matched.dedup();
        let matches = &self.intake.metrics.ingest_secret_matches;
        for secret in matched {
            let look_up = || matches.with_label_values(&[self.label(), &secret.to_string()]);
            match &self.source {
                Some(source) if secret == 0 => source.usual.secret_matches.get_or_init(look_up).inc(),
                _ => look_up().inc(),
            }
        }
    }

    /// All events of the delivery are durable; the delivery counts as spooled where any of them is.
    pub(crate) fn accept(mut self, source: &SourceState, events: &[KeptEvent]) -> Response {
        self.ends_as = None;
        let is_spooled = events.iter().any(|(_, kept)| matches!(kept, Kept::InSpool(_)));
        self.count(if is_spooled { Outcome::Spooled } else { Outcome::Accepted });
        let name = source.settings.model.name.as_str();
        let elapsed = self.started.elapsed().as_secs_f64();
        let look_up = || self.intake.metrics.ingest_ack_seconds.with_label_values(&[name]);
        source.usual.ack_seconds.get_or_init(look_up).observe(elapsed);
        for (message, kept) in events {
            let (outcome, detail) = match kept {
                Kept::InQueue => (Outcome::Accepted, None),
                Kept::InSpool(error) => (Outcome::Spooled, Some(report::detail(error))),
            };
            info!(
                target: "oncefold::ingest",
                source = name,
                event = %message.id,
                event_id = %report::escaped(&message.event_id),
                outcome = outcome.as_str(),
                detail = detail.as_deref(),
                trace = self.trace,
                "delivery accepted"
            );
        }
        answer::accepted(&source.settings.respond, &self.trace)
    }

    /// The provider's handshake is answered; nothing is kept. Some come unsigned, so lines about them are bounded too.
    pub(crate) fn shake(mut self, answer: &Answer) -> Response {
        self.ends_as = None;
        self.count(Outcome::Handshake);
        if self.source.as_ref().is_some_and(|source| source.lines.admits()) {
            let (source, status, trace) = (self.label(), answer.status, self.trace.as_str());
            info!(target: "oncefold::ingest", source, outcome = Outcome::Handshake.as_str(), status, trace, "handshake answered");
        }
        answer::handshake(answer, &self.trace)
    }

    fn answer(&self, refusal: &Refusal) -> Response {
        let source = self.source.as_ref().map(|source| &source.settings);
        let keys = self.source.as_ref().map(|source| source.keys());
        refusal.answer(&AnswerContext {
            methods: source.map_or(&[], |source| &source.methods),
            handshake_method: keys.as_ref().and_then(|keys| keys.handshake.as_ref()?.method()),
            takes_gzip: source.is_some_and(|source| source.takes_gzip),
            bare_401: keys.as_ref().is_some_and(|keys| keys.handshake == Some(Handshake::Xero)),
            basic: keys.is_some_and(|keys| keys.scheme_name == "basic"),
            retry_after: self.intake.settings.retry_after,
            trace: &self.trace,
        })
    }

    fn note(&self, refusal: &Refusal) {
        self.count(refusal.outcome());
        match &self.source {
            Some(source) => report::refused(self.label(), &source.lines, refusal, &self.trace, None),
            None => report::refused(UNKNOWN, &self.intake.unknown, refusal, &self.trace, self.name.as_deref()),
        }
    }

    fn count(&self, outcome: Outcome) {
        let look_up = || self.intake.metrics.ingest_deliveries.with_label_values(&[self.label(), outcome.as_str()]);
        match &self.source {
            Some(source) if outcome == Outcome::Accepted => source.usual.accepted.get_or_init(look_up).inc(),
            _ => look_up().inc(),
        }
    }

    fn label(&self) -> &str {
        self.source.as_ref().map_or(UNKNOWN, |source| source.settings.model.name.as_str())
    }
}

impl Drop for Tally {
    fn drop(&mut self) {
        if let Some(refusal) = self.ends_as.take() {
            self.note(&refusal);
        }
    }
}

/// A moment to compare signatures with.
pub(crate) fn unix_time(at: Timestamp) -> oncefold_signature::UnixTime {
    oncefold_signature::UnixTime::from_micros(at.as_micros())
}

#[cfg(test)]
#[path = "intake_tests.rs"]
mod tests;
