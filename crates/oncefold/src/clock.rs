//! The only clock and the only source of randomness.

use oncefold_core::{Clock, Entropy, Timestamp};
use std::time::{SystemTime, UNIX_EPOCH};

/// The wall clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[allow(clippy::disallowed_methods, reason = "this is the one place that reads the wall clock")]
    fn now(&self) -> Timestamp {
        let micros = match SystemTime::now().duration_since(UNIX_EPOCH) {
            Ok(since) => i64::try_from(since.as_micros()).unwrap_or(i64::MAX),
            Err(before) => i64::try_from(before.duration().as_micros()).map_or(i64::MIN, |us| -us),
        };
        Timestamp::from_micros(micros)
    }
}

/// The operating system's random source.
#[derive(Clone, Copy, Debug, Default)]
pub struct OsEntropy;

impl Entropy for OsEntropy {
    #[allow(clippy::disallowed_methods, reason = "this is the one place that asks the OS for randomness")]
    fn fill(&self, bytes: &mut [u8]) {
        // Without randomness there are no ids and no tokens: nothing sensible is left to do.
        getrandom::fill(bytes).unwrap_or_else(|e| {
            output_fatal(&format!("the operating system gives no randomness: {e}"));
        });
    }
}

fn output_fatal(message: &str) -> ! {
    crate::output::complain(&message);
    std::process::exit(1)
}
