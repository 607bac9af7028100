//! The gate before the database: closed by whoever finds it away, opened by the probe. While it is closed nobody
//! consumes, so that an outage is met once and nothing counts as an attempt.

use crate::context::Context;
use crate::pause::Pause;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

const PART: &str = "database";

#[derive(Debug, Default)]
struct State {
    closed: bool,
    /// Something was written since the gate last opened: the next outage is a new one.
    proven: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Gate {
    state: watch::Sender<State>,
}

impl Gate {
    /// Waits until the gate is open.
    pub async fn pass(&self) {
        let _ = self.state.subscribe().wait_for(|s| !s.closed).await;
    }

    /// Waits until the gate is closed.
    pub async fn closed(&self) {
        let _ = self.state.subscribe().wait_for(|s| s.closed).await;
    }

    /// The database did what was asked.
    pub fn prove(&self) {
        self.state.send_if_modified(|s| !std::mem::replace(&mut s.proven, true));
    }

    /// Closes the gate; tells whether it was open.
    fn close(&self) -> bool {
        self.state.send_if_modified(|s| !std::mem::replace(&mut s.closed, true))
    }

    fn open(&self) {
        self.state.send_replace(State::default());
    }

    fn is_proven(&self) -> bool {
        self.state.borrow().proven
    }
}

impl Context {
    /// Stops all work with the database until the probe reaches it again. Logs the first of many.
    pub fn store_is_away(&self, cause: &str) {
        if self.gate.close() {
            self.health.fail(PART, cause);
            warn!(cause, "the database is away: work pauses, nothing counts as an attempt");
        }
    }
}

/// Opens the gate again: asks the database with growing pauses. They go on growing where it answers the probe and then
/// fails the work.
pub(crate) async fn probe(ctx: &Context, soft: &CancellationToken) {
    let mut pause = Pause::between(ctx.settings.pace.pause_first, ctx.settings.pace.pause_max);
    let watching = async {
        loop {
            ctx.gate.closed().await;
            if ctx.gate.is_proven() {
                pause.reset();
            }
            loop {
                tokio::time::sleep(pause.after_failure(ctx.entropy.as_ref())).await;
                match ctx.store.ping().await {
                    Ok(()) => break,
                    Err(e) => ctx.health.fail(PART, e.to_string()),
                };
            }
            info!("the database answers: work goes on");
            ctx.health.mend(PART);
            ctx.gate.open();
        }
    };
    tokio::select! {
        () = soft.cancelled() => {}
        () = watching => {}
    }
}
