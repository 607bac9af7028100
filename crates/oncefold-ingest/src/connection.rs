//! One connection: HTTP/1.1 with keep-alive and pipelining, until the client or we have had enough of it.

use crate::intake::{Intake, receive};
use crate::linger::Lingering;
use crate::settings::IngestSettings;
use http::StatusCode;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::debug;

/// Longest request head, bytes; longer is answered 431. Read buffers grow no further than this.
const HEAD_BYTES_MAX: usize = 64 * 1024;
/// Most headers of a request.
const HEADERS_MAX: usize = 100;
/// Younger connections are not closed to make room.
const YOUNG: Duration = Duration::from_secs(1);

/// What connections share.
#[derive(Clone)]
pub(crate) struct Shared {
    pub(crate) intake: Arc<Intake>,
    pub(crate) http: http1::Builder,
    /// Stop after what is in hand.
    pub(crate) soft: CancellationToken,
    /// Told when there is no room for another connection.
    pub(crate) pressure: Arc<Notify>,
}

/// HTTP as we speak it. Not with `pipeline_flush`: it keeps back an answer for as long as unread bytes are buffered,
/// and so loses that to a request whose rest is not read.
pub(crate) fn http(settings: &IngestSettings) -> http1::Builder {
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(settings.header_timeout)
        .max_buf_size(HEAD_BYTES_MAX)
        .max_headers(HEADERS_MAX)
        // A client may close its side once it has sent its request, and still read the answer.
        .half_close(true);
    http
}

/// Serves until the connection ends.
pub(crate) async fn serve(stream: TcpStream, shared: Shared) {
    if let Err(error) = stream.set_nodelay(true) {
        debug!(target: "oncefold::ingest", %error, "TCP_NODELAY not set");
    }
    let in_hand = Arc::new(AtomicUsize::new(0));
    let linger = Arc::new(AtomicBool::new(false));
    let service = service_fn(|request: hyper::Request<Incoming>| {
        let held = InHand::one_more(&in_hand);
        let linger = Arc::clone(&linger);
        let intake = Arc::clone(&shared.intake);
        async move {
            let answer = receive(intake, request).await;
            let refused = |status: StatusCode| !status.is_success() && status != StatusCode::UNAUTHORIZED;
            linger.store(refused(answer.status()), Ordering::Relaxed);
            drop(held);
            Ok::<_, Infallible>(answer)
        }
    });
    let io = TokioIo::new(Lingering::around(stream, Arc::clone(&linger)));
    let mut connection = pin!(shared.http.serve_connection(io, service));
    let opened = Instant::now();
    let mut asked_to_end = false;
    loop {
        tokio::select! {
            ended = connection.as_mut() => {
                if let Err(error) = ended {
                    debug!(target: "oncefold::ingest", %error, "connection ended");
                }
                return;
            }
            () = shared.soft.cancelled(), if !asked_to_end => {
                asked_to_end = true;
                connection.as_mut().graceful_shutdown();
            }
            () = shared.pressure.notified() => {
                if opened.elapsed() < YOUNG {
                    continue;
                }
                // Asked a second time and with no request in hand, it is one that sends its head a byte at a time.
                if asked_to_end && in_hand.load(Ordering::Relaxed) == 0 {
                    return;
                }
                asked_to_end = true;
                connection.as_mut().graceful_shutdown();
            }
        }
    }
}

/// Counts a request for as long as it is held.
struct InHand(Arc<AtomicUsize>);

impl InHand {
    fn one_more(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(count))
    }
}

impl Drop for InHand {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
