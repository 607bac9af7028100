//! The TOML config: read once, every problem named with its line and its mend, nothing left to validate later.
//!
//! * [`Config::load`] reads everything, [`load_source`] one `[sources.X]` table without the rest.
//! * One section is one file under `sections/`, with its own validation; presets are TOML in the same language.
//! * Unknown keys are errors: a key that is not read would otherwise look as if it did something.
//! * Secrets never show in `Debug`, `Display` or a problem; problems about them name their place.

mod load;
mod presets;
mod problem;
mod reader;
mod reference;
mod sections;
mod units;
mod url;

pub use load::{Config, Loaded, LoadedSource, load_source};
pub use presets::{Preset, preset, presets};
pub use problem::{Problem, Problems};
pub use sections::admin::{Admin, AdminToken, Role};
pub use sections::ingest::Ingest;
pub use sections::ops::OpsListen;
pub use sections::respond::Respond;
pub use sections::retention::Retention;
pub use sections::source::{Redact, SourceConfig};
pub use sections::worker::Worker;
pub use url::{ConnectionUrl, QueueUrl, StoreUrl};

#[cfg(test)]
mod tests;
