//! Backends in memory, as faithful as the suites ask, with switches to fail; time and randomness for tests.

mod clock;
mod queue;
mod store;

pub use clock::{SeededEntropy, TokioClock};
pub use queue::FakeQueue;
pub use store::{FakeStore, Fault, FaultHook, Faults};

#[cfg(test)]
mod tests;
