//! Keeps a connection: connects, hands it to its role, connects again when it is lost.

use crate::connect::{CONNECT_TIMEOUT, dial};
use crate::reconnect::Pauses;
use crate::settings::shown;
use futures_util::{Stream, StreamExt};
use lapin::uri::AMQPUri;
use lapin::{Connection, Event};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

/// A connection that lasted so long was a good one: the pauses begin with the shortest again.
const STABLE: Duration = Duration::from_secs(10);
/// How often the state is looked at, in case the client did not tell of a loss.
const STATE_CHECK: Duration = Duration::from_secs(1);
/// Longest wait for the broker's leave at the end.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// What a connection is for.
pub(crate) trait Role: Send + Sync {
    /// Names it in logs and in the broker's list.
    const NAME: &'static str;

    /// Uses the connection until it is lost, or `stop` is cancelled; says why it ended.
    fn serve(&self, connection: &Arc<Connection>, stop: &CancellationToken) -> impl Future<Output = String> + Send;

    /// There is no connection now.
    fn is_down(&self, why: &str);
}

/// Runs until `stop` is cancelled.
pub(crate) async fn keep_connected<R: Role>(role: &R, uri: &AMQPUri, stop: &CancellationToken) {
    let mut pauses = Pauses::from_the_start();
    let mut last_failure = String::new();
    let address = shown(uri);
    while !stop.is_cancelled() {
        let dialled = tokio::select! {
            biased;
            () = stop.cancelled() => break,
            dialled = dial(uri, R::NAME, CONNECT_TIMEOUT) => dialled,
        };
        let why = match dialled {
            Ok(connection) => {
                tracing::info!(%address, role = R::NAME, "connected to the broker");
                last_failure.clear();
                let why = serve(role, connection, stop).await;
                if stop.is_cancelled() {
                    break;
                }
                tracing::warn!(%address, role = R::NAME, reason = %why.text, "the connection to the broker is lost");
                if why.lasted >= STABLE {
                    pauses.reset();
                }
                why.text
            }
            Err(why) => {
                if why == last_failure {
                    tracing::debug!(%address, role = R::NAME, reason = %why, "still no connection to the broker");
                } else {
                    tracing::warn!(%address, role = R::NAME, reason = %why, "no connection to the broker; trying on");
                    last_failure.clone_from(&why);
                }
                why
            }
        };
        role.is_down(&why);
        tokio::select! {
            () = stop.cancelled() => break,
            () = sleep(pauses.next()) => {}
        }
    }
    role.is_down("it was closed");
}

struct Ended {
    text: String,
    lasted: Duration,
}

async fn serve<R: Role>(role: &R, connection: Connection, stop: &CancellationToken) -> Ended {
    let since = Instant::now();
    let connection = Arc::new(connection);
    let text = role.serve(&connection, stop).await;
    let lasted = since.elapsed();
    role.is_down(&text);
    let _ = timeout(CLOSE_TIMEOUT, connection.close(200, "closed by oncefold".into())).await; // it may be gone already
    Ended { text, lasted }
}

/// What a connection tells of itself.
pub(crate) enum Notice {
    Blocked(String),
    Unblocked,
    Lost(String),
}

/// The notices of a connection.
pub(crate) struct Notices {
    events: Pin<Box<dyn Stream<Item = Event> + Send>>,
    connection: Arc<Connection>,
}

impl Notices {
    pub(crate) fn of(connection: &Arc<Connection>) -> Self {
        Self { events: Box::pin(connection.events_listener()), connection: connection.clone() }
    }

    /// Waits for the next one. Cancel-safe.
    pub(crate) async fn next(&mut self) -> Notice {
        loop {
            match timeout(STATE_CHECK, self.events.next()).await {
                Ok(Some(Event::ConnectionBlocked(why))) => return Notice::Blocked(why),
                Ok(Some(Event::ConnectionUnblocked)) => return Notice::Unblocked,
                // Errors of single channels are told here, too; whoever uses the channel sees to them.
                Ok(Some(Event::Error(error))) if !self.connection.status().connected() => {
                    return Notice::Lost(error.to_string());
                }
                Ok(Some(_)) => {}
                Ok(None) => return Notice::Lost("the client ended it".to_owned()),
                Err(_) if self.connection.status().connected() => {}
                Err(_) => return Notice::Lost("it was closed".to_owned()),
            }
        }
    }
}
