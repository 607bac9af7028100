use oncefold_core::Entropy;
use std::time::Duration;

/// A pause that doubles from failure to failure, up to a bound, with jitter: each is 50 to 100 % of the full one.
#[derive(Debug)]
pub(crate) struct Pause {
    first: Duration,
    max: Duration,
    full: Duration,
}

impl Pause {
    pub fn between(first: Duration, max: Duration) -> Self {
        Self { first, max, full: first }
    }

    pub fn reset(&mut self) {
        self.full = self.first;
    }

    /// The pause after one more failure.
    pub fn after_failure(&mut self, entropy: &dyn Entropy) -> Duration {
        let full = self.full;
        self.full = (full * 2).min(self.max);
        let half_us = u64::try_from(full.as_micros() / 2).unwrap_or(u64::MAX);
        let jitter_us = (u128::from(entropy.next_u64()) * (u128::from(half_us) + 1)) >> 64;
        Duration::from_micros(half_us + u64::try_from(jitter_us).unwrap_or(half_us))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Fixed(u8);
    impl Entropy for Fixed {
        fn fill(&self, bytes: &mut [u8]) {
            bytes.fill(self.0);
        }
    }

    #[test]
    fn doubles_to_the_bound_and_starts_over() {
        let mut pause = Pause::between(Duration::from_millis(250), Duration::from_secs(5));
        let longest: Vec<u128> = (0..7).map(|_| pause.after_failure(&Fixed(0xFF)).as_millis()).collect();
        assert_eq!(longest, [250, 500, 1000, 2000, 4000, 5000, 5000]);
        assert_eq!(pause.after_failure(&Fixed(0)).as_millis(), 2500, "at least half of it");
        pause.reset();
        assert_eq!(pause.after_failure(&Fixed(0)).as_millis(), 125);
    }
}
