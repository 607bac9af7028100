//! The only clock and the only source of randomness.

use oncefold_core::{Clock, Entropy, Timestamp};
use std::cell::RefCell;
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

/// The operating system's random source, asked for a block at a time: an accepted delivery needs two ids.
#[derive(Clone, Copy, Debug, Default)]
pub struct OsEntropy;

/// Random bytes that no one has had yet: those from `next` on.
struct Block {
    bytes: [u8; Self::LENGTH],
    next: usize,
}

impl Block {
    /// Up to this many, getrandom(2) is never interrupted.
    const LENGTH: usize = 256;
    const SPENT: Self = Self { bytes: [0; Self::LENGTH], next: Self::LENGTH };

    /// Hands out bytes, once: they are not kept.
    fn take(&mut self, wanted: &mut [u8]) {
        if self.bytes.len() - self.next < wanted.len() {
            ask(&mut self.bytes);
            self.next = 0;
        }
        let given = &mut self.bytes[self.next..self.next + wanted.len()];
        wanted.copy_from_slice(given);
        given.fill(0);
        self.next += wanted.len();
    }
}

impl Entropy for OsEntropy {
    fn fill(&self, bytes: &mut [u8]) {
        thread_local! {
            static BLOCK: RefCell<Block> = const { RefCell::new(Block::SPENT) };
        }
        if bytes.len() > Block::LENGTH {
            return ask(bytes);
        }
        BLOCK.with_borrow_mut(|block| block.take(bytes));
    }
}

#[allow(clippy::disallowed_methods, reason = "this is the one place that asks the OS for randomness")]
fn ask(bytes: &mut [u8]) {
    // Without randomness there are no ids and no tokens: nothing sensible is left to do.
    getrandom::fill(bytes).unwrap_or_else(|e| {
        output_fatal(&format!("the operating system gives no randomness: {e}"));
    });
}

fn output_fatal(message: &str) -> ! {
    crate::output::complain(&message);
    std::process::exit(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    /// Blocks of 16 bytes from several threads, across many refills, and longer ones than are held.
    #[test]
    fn no_random_bytes_are_given_twice() {
        let some = || {
            (0..500)
                .map(|_| {
                    let mut bytes = [0; 16];
                    OsEntropy.fill(&mut bytes);
                    bytes
                })
                .collect::<Vec<_>>()
        };
        let threads: Vec<_> = (0..4).map(|_| std::thread::spawn(some)).collect();
        let mut seen = HashSet::from([[0; 16]]);
        for bytes in threads.into_iter().flat_map(|thread| thread.join().unwrap()).chain(some()) {
            assert!(seen.insert(bytes));
        }
        let (mut long, mut odd) = (vec![0; 1_000], vec![0; 255]);
        OsEntropy.fill(&mut long);
        OsEntropy.fill(&mut odd);
        for bytes in long.chunks_exact(16).chain(odd.chunks_exact(16)) {
            assert!(seen.insert(bytes.try_into().unwrap()));
        }
    }
}
