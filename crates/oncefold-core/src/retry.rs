//! The retry schedule of events: exponential backoff with full jitter, a pure function of its arguments.

use std::time::Duration;

/// How failed attempts are spaced, and when they end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Attempts after which the event is dead.
    pub max_attempts: u32,
    /// Upper bound of the first delay.
    pub base: Duration,
    /// Upper bound of every delay.
    pub cap: Duration,
}

impl RetryPolicy {
    /// The delay after the `attempts`th failed attempt (from 1), or nothing where that was the last. `random` picks
    /// uniformly between zero and `min(cap, base * 2^(attempts - 1))`: "full jitter" (Marc Brooker, "Exponential
    /// Backoff And Jitter", AWS Architecture Blog).
    pub fn delay_after(&self, attempts: u32, random: u64) -> Option<Duration> {
        if attempts >= self.max_attempts {
            return None;
        }
        let doublings = attempts.saturating_sub(1).min(63);
        let base_us = u64::try_from(self.base.as_micros()).unwrap_or(u64::MAX);
        let cap_us = u64::try_from(self.cap.as_micros()).unwrap_or(u64::MAX);
        let bound_us = base_us.saturating_mul(1u64 << doublings).min(cap_us);
        let picked_us = (u128::from(random) * (u128::from(bound_us) + 1)) >> 64;
        Some(Duration::from_micros(u64::try_from(picked_us).unwrap_or(bound_us)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLICY: RetryPolicy =
        RetryPolicy { max_attempts: 60, base: Duration::from_secs(2), cap: Duration::from_secs(3600) };

    #[test]
    fn the_bound_doubles_to_the_cap_and_the_last_attempt_ends_it() {
        let bound_s = |attempts| POLICY.delay_after(attempts, u64::MAX).map(|d| d.as_secs());
        let expected = [2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 3600, 3600];
        for (attempt, seconds) in (1..).zip(expected) {
            assert_eq!(bound_s(attempt), Some(seconds), "after attempt {attempt}");
        }
        assert_eq!(bound_s(59), Some(3600));
        assert_eq!(bound_s(60), None);
        assert_eq!(bound_s(u32::MAX), None);
    }

    #[test]
    fn jitter_is_full() {
        assert_eq!(POLICY.delay_after(1, 0), Some(Duration::ZERO));
        assert_eq!(POLICY.delay_after(1, u64::MAX / 2), Some(Duration::from_secs(1)));
    }

    #[test]
    fn the_defaults_last_about_a_day() {
        let mean_s: u64 = (1..60).filter_map(|n| POLICY.delay_after(n, u64::MAX / 2)).map(|d| d.as_secs()).sum();
        assert!((20 * 3600..28 * 3600).contains(&mean_s), "{mean_s}");
    }
}
