//! Sources whose work queue confirms nothing while others do, such as a quorum queue that lost its majority. Their
//! events go elsewhere at once: waiting for confirms, they would take the room of all other sources. One now and then
//! tries, on a channel of its own: RabbitMQ stops a channel for seconds that is the first to publish to such a queue.

use crate::health::TIMEOUTS_IN_A_ROW;
use oncefold_core::SourceName;
use oncefold_core::queue::PublishError;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// A silent queue is tried so often.
const TRY_PAUSE: Duration = Duration::from_secs(2);

/// The sources with timeouts since their last confirm.
#[derive(Default)]
pub(crate) struct Silences {
    any: AtomicBool,
    sources: Mutex<HashMap<SourceName, Silence>>,
}

struct Silence {
    timeouts: u32,
    last: Instant,
}

/// How an event is to be published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Usual,
    /// Only to see whether its queue confirms again.
    Trial,
}

impl Silence {
    fn is_certain(&self) -> bool {
        self.timeouts >= TIMEOUTS_IN_A_ROW
    }
}

impl Silences {
    /// How to publish an event of this source; an error where it is not to be published.
    pub(crate) fn check(&self, source: &SourceName, now: Instant) -> Result<Way, PublishError> {
        if !self.any.load(Ordering::Acquire) {
            return Ok(Way::Usual);
        }
        match self.sources().get_mut(source) {
            Some(silence) if silence.is_certain() => {
                if now < silence.last + TRY_PAUSE {
                    return Err(PublishError::Away("its work queue confirms nothing".to_owned()));
                }
                silence.last = now;
                Ok(Way::Trial)
            }
            _ => Ok(Way::Usual),
        }
    }

    /// An event of this source was not confirmed in time. Says whether that was news: its queue was not known to be
    /// silent.
    pub(crate) fn timed_out(&self, source: &SourceName, now: Instant) -> bool {
        let mut sources = self.sources();
        self.any.store(true, Ordering::Release);
        let silence = sources.entry(source.clone()).or_insert(Silence { timeouts: 0, last: now });
        let is_news = !silence.is_certain();
        silence.timeouts = silence.timeouts.saturating_add(1);
        silence.last = now;
        if is_news && silence.is_certain() {
            tracing::warn!(%source, "its work queue confirms nothing: deliveries go elsewhere, one in {TRY_PAUSE:?} tries");
        }
        is_news
    }

    /// An event of this source was confirmed. That it was refused says nothing: the broker refuses for a queue that does
    /// not answer it.
    pub(crate) fn confirmed(&self, source: &SourceName) {
        if !self.any.load(Ordering::Acquire) {
            return;
        }
        let mut sources = self.sources();
        if sources.remove(source).is_some_and(|silence| silence.is_certain()) {
            tracing::info!(%source, "its work queue confirms again");
        }
        self.any.store(!sources.is_empty(), Ordering::Release);
    }

    fn sources(&self) -> MutexGuard<'_, HashMap<SourceName, Silence>> {
        self.sources.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shop() -> SourceName {
        SourceName::parse("shop").unwrap()
    }

    fn silent_since(now: Instant) -> Silences {
        let silences = Silences::default();
        let news: Vec<bool> = (0..4).map(|_| silences.timed_out(&shop(), now)).collect();
        assert_eq!(news, [true, true, true, false]);
        silences
    }

    #[test]
    fn three_timeouts_in_a_row_make_a_source_silent_and_no_other() {
        let (silences, now) = (Silences::default(), Instant::now());
        for _ in 0..2 {
            silences.timed_out(&shop(), now);
            silences.timed_out(&shop(), now);
            assert_eq!(silences.check(&shop(), now).ok(), Some(Way::Usual));
            silences.confirmed(&shop());
        }
        let silences = silent_since(now);
        assert!(matches!(silences.check(&shop(), now), Err(PublishError::Away(_))));
        assert_eq!(silences.check(&SourceName::parse("other").unwrap(), now).ok(), Some(Way::Usual));
    }

    #[test]
    fn one_in_a_while_tries() {
        let now = Instant::now();
        let silences = silent_since(now);
        let later = now + TRY_PAUSE;
        assert_eq!(silences.check(&shop(), later).ok(), Some(Way::Trial));
        assert!(silences.check(&shop(), later).is_err(), "one, not all of that moment");
        assert!(!silences.timed_out(&shop(), later + TRY_PAUSE), "no news");
        assert!(silences.check(&shop(), later + TRY_PAUSE).is_err(), "the pause begins anew");
    }

    #[test]
    fn a_confirm_ends_it() {
        let now = Instant::now();
        let silences = silent_since(now);
        silences.confirmed(&shop());
        assert_eq!(silences.check(&shop(), now).ok(), Some(Way::Usual));
        assert!(silences.timed_out(&shop(), now), "counted from the start");
        assert_eq!(silences.check(&shop(), now).ok(), Some(Way::Usual));
    }
}
