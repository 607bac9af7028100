//! Whether publishing works: what ingest asks before each event.

use oncefold_core::queue::PublishError;
use std::fmt;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use tokio::sync::watch;

/// So many publishes in a row without a confirm in time, and further ones go elsewhere at once.
pub(crate) const TIMEOUTS_IN_A_ROW: u32 = 3;

/// How publishing stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// No connection; the text says why.
    Down(String),
    /// Connected, and confirming as far as we know.
    Ready,
    /// The broker takes nothing from this connection (`connection.blocked`: memory or disk alarm).
    Blocked(String),
    /// The broker no longer confirms; a prober finds out when it does again.
    Silent,
    /// We closed it.
    Closed,
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Down(why) => f.write_str(why),
            Self::Ready => f.write_str("it is there"),
            Self::Blocked(why) => write!(f, "the broker takes nothing at present ({why})"),
            Self::Silent => f.write_str("the broker has stopped confirming"),
            Self::Closed => f.write_str("it was closed"),
        }
    }
}

/// The present phase, and what moves it.
pub(crate) struct Health {
    phase: watch::Sender<Phase>,
    timeouts: AtomicU32,
    confirms: AtomicU64,
}

impl Health {
    pub(crate) fn connecting() -> Self {
        Self {
            phase: watch::Sender::new(Phase::Down("not connected yet".to_owned())),
            timeouts: AtomicU32::new(0),
            confirms: AtomicU64::new(0),
        }
    }

    pub(crate) fn is_ready(&self) -> bool {
        matches!(*self.phase.borrow(), Phase::Ready)
    }

    /// An error unless publishes are to be tried.
    pub(crate) fn check(&self) -> Result<(), PublishError> {
        match &*self.phase.borrow() {
            Phase::Ready => Ok(()),
            other => Err(PublishError::Away(other.to_string())),
        }
    }

    /// Events confirmed so far.
    pub(crate) fn confirms(&self) -> u64 {
        self.confirms.load(Ordering::Relaxed)
    }

    /// Moves to a phase the connection is in. Logged once per change; `Closed` is final.
    pub(crate) fn enter(&self, phase: Phase) {
        self.timeouts.store(0, Ordering::Relaxed);
        self.change(phase, |_| true);
    }

    /// Some events were confirmed: whatever silence there was is over.
    pub(crate) fn confirmed(&self, events: u64) {
        self.confirms.fetch_add(events, Ordering::Relaxed);
        self.heard();
    }

    /// The broker answered.
    pub(crate) fn heard(&self) {
        self.timeouts.store(0, Ordering::Relaxed);
        if !self.is_ready() {
            self.change(Phase::Ready, |phase| *phase == Phase::Silent);
        }
    }

    /// A publish was not confirmed in time.
    pub(crate) fn timed_out(&self) {
        if self.timeouts.fetch_add(1, Ordering::Relaxed) + 1 >= TIMEOUTS_IN_A_ROW {
            self.change(Phase::Silent, |phase| *phase == Phase::Ready);
        }
    }

    /// Returns when the broker is silent.
    pub(crate) async fn is_silent(&self) {
        let mut phase = self.phase.subscribe();
        let _ = phase.wait_for(|phase| *phase == Phase::Silent).await; // fails only when `self` is gone
    }

    fn change(&self, to: Phase, from: impl Fn(&Phase) -> bool) {
        self.phase.send_if_modified(|phase| {
            if *phase == to || *phase == Phase::Closed || !from(phase) {
                return false;
            }
            let of_one_kind = std::mem::discriminant(phase) == std::mem::discriminant(&to);
            match &to {
                _ if of_one_kind => tracing::debug!(reason = %to, "publishing is still away"),
                Phase::Ready => tracing::info!("publishing works"),
                Phase::Closed => tracing::info!("publishing is closed"),
                away => tracing::warn!(reason = %away, "publishing is away"),
            }
            *phase = to;
            true
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ready() -> Health {
        let health = Health::connecting();
        health.enter(Phase::Ready);
        health
    }

    #[test]
    fn three_timeouts_in_a_row_make_it_silent_until_something_is_heard() {
        let health = ready();
        health.timed_out();
        health.timed_out();
        health.confirmed(1);
        health.timed_out();
        health.timed_out();
        assert!(health.is_ready(), "a confirm in between begins a new row");
        health.timed_out();
        assert!(matches!(health.check(), Err(PublishError::Away(_))));
        health.heard();
        assert!(health.is_ready());
    }

    #[test]
    fn what_the_connection_says_outranks_timeouts_and_late_confirms() {
        let health = ready();
        health.enter(Phase::Blocked("low on memory".to_owned()));
        (0..5).for_each(|_| health.timed_out());
        health.confirmed(1);
        assert!(health.check().unwrap_err().to_string().contains("low on memory"));

        health.enter(Phase::Ready);
        health.timed_out();
        assert!(health.is_ready(), "timeouts of before the alarm do not count on");

        health.enter(Phase::Closed);
        health.enter(Phase::Ready);
        assert!(!health.is_ready(), "closed is closed");
    }
}
