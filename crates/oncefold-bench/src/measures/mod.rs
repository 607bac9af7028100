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
use crate::report::Measure;
use crate::stats::Spread;
use anyhow::{Context as _, Result};
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
    /// The only rate at which to measure, events a second, where it is not half of what was reached.
    pub rate: Option<f64>,
    /// Events that wait when a worker starts.
    pub backlog: u64,
}

impl Plan {
    /// How often each side runs as fast as it can: not at all where only a rate is asked for.
    fn closed_pairs(&self) -> usize {
        if self.rate.is_some() { 0 } else { self.pairs }
    }

    /// The rate at which latency is measured: half of what the product reached, unless one is asked for.
    fn fixed_rate(&self, reached: &Measure) -> Result<f64> {
        let half = || Spread::of(&reached.ours).map(|spread| spread.median / 2.0);
        self.rate.or_else(half).context("no run")
    }

    fn length(&self) -> Length {
        Length::Time { warm: self.warm, measured: self.measured }
    }
}

/// Tells what is going on.
#[allow(clippy::print_stderr, reason = "progress of a command-line program")]
pub fn say(what: &str) {
    eprintln!("bench: {what}");
}
