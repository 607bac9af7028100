//! How long to wait before the next try: the only user of the `backoff` crate.

use backoff::{ExponentialBackoff, ExponentialBackoffBuilder, backoff::Backoff};
use std::time::Duration;

/// The longest pause is this, give or take the jitter.
const PAUSE_MAX: Duration = Duration::from_secs(5);
const PAUSE_FIRST: Duration = Duration::from_millis(100);
/// Each pause is drawn from 50 % to 150 % of its length, so that many processes do not come back at once.
const JITTER: f64 = 0.5;

/// Pauses that double from 100 ms to 5 s, with jitter, without end.
pub(crate) struct Pauses(ExponentialBackoff);

impl Pauses {
    pub(crate) fn from_the_start() -> Self {
        Self(
            ExponentialBackoffBuilder::new()
                .with_initial_interval(PAUSE_FIRST)
                .with_multiplier(2.0)
                .with_randomization_factor(JITTER)
                .with_max_interval(PAUSE_MAX)
                .with_max_elapsed_time(None)
                .build(),
        )
    }

    /// The next one.
    pub(crate) fn next(&mut self) -> Duration {
        self.0.next_backoff().unwrap_or(PAUSE_MAX)
    }

    /// Begins with the shortest again.
    pub(crate) fn reset(&mut self) {
        self.0.reset();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_the_cap_and_start_again() {
        let mut pauses = Pauses::from_the_start();
        let bounds = |base_ms: f64| (base_ms * 0.5 / 1000.0)..=(base_ms * 1.5 / 1000.0 + 1e-6);
        for base_ms in [100.0, 200.0, 400.0, 800.0, 1600.0, 3200.0, 5000.0, 5000.0] {
            let pause = pauses.next().as_secs_f64();
            assert!(bounds(base_ms).contains(&pause), "{pause} s, expected about {base_ms} ms");
        }
        pauses.reset();
        assert!(bounds(100.0).contains(&pauses.next().as_secs_f64()));
    }
}
