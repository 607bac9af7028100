//! `serve --demo`: signed sample traffic through real HTTP, doubled and shuffled, and a table of what happened.

mod deliver;
mod report;
mod traffic;

pub use deliver::{Answers, deliver};
pub use report::{Report, observe};
pub use traffic::{Expected, Kind, Traffic, shuffle};

/// The config of `serve` without a config file, and of the demo: a source `demo` as storekit sends through Svix.
pub const CONFIG: &str = include_str!("../../../../docs/samples/demo.toml");

/// The name of the source in [`CONFIG`].
pub const SOURCE: &str = "demo";
