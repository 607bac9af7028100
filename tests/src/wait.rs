//! Waiting for something to become true, with a deadline and without fixed sleeps.

use std::fmt::Debug;
use std::time::{Duration, Instant};

const POLL: Duration = Duration::from_millis(20);

/// Polls until `check` gives something; panics with what it gave last at the deadline.
pub fn until<T, E: Debug>(what: &str, within: Duration, mut check: impl FnMut() -> Result<T, E>) -> T {
    let deadline = Instant::now() + within;
    loop {
        match check() {
            Ok(found) => return found,
            Err(last) if Instant::now() > deadline => panic!("{what}: not within {within:?}; last: {last:?}"),
            Err(_) => std::thread::sleep(POLL),
        }
    }
}
