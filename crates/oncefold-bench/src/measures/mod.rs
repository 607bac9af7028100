//! The measures of performance.md, one file per subcommand. Product and ceiling run in turns.

mod drained;
pub mod e2e;
pub mod embedded;
mod fill;
pub mod ingest;
pub mod peers;
pub mod storm;
pub mod worker;

use crate::deployment::Side;
use crate::load::Length;
use std::path::PathBuf;
use std::time::Duration;

/// Turns within a pair.
const SIDES: [Side; 2] = [Side::Product, Side::Ceiling];

/// How much to measure.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The product's binary.
    pub product: PathBuf,
    /// How often each side runs.
    pub pairs: usize,
    /// What a load does before it is measured.
    pub warm: Duration,
    /// How long a load is measured.
    pub measured: Duration,
    /// Events that wait when a worker starts.
    pub backlog: u64,
}

impl Plan {
    fn length(&self) -> Length {
        Length::Time { warm: self.warm, measured: self.measured }
    }
}

/// Tells what is going on.
#[allow(clippy::print_stderr, reason = "progress of a command-line program")]
fn say(what: &str) {
    eprintln!("bench: {what}");
}
