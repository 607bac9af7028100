//! Which config a command runs with: the file that is named, `./oncefold.toml`, or the demo's where there is none.

use crate::demo;
use crate::failure::Failure;
use oncefold_config::{Config, Loaded};
use std::path::{Path, PathBuf};

const DEFAULT_FILE: &str = "oncefold.toml";

/// A loaded config, and where it came from.
#[derive(Debug)]
pub struct Settings {
    /// The config.
    pub config: Config,
    /// The file; none where there is no file and the built-in config is used.
    pub file: Option<PathBuf>,
}

/// The environment, as config and commands read it.
pub fn env(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// The config file: what was named, else `./oncefold.toml` if it is there.
pub fn file(named: Option<&Path>) -> Option<PathBuf> {
    named.map(Path::to_path_buf).or_else(|| Some(PathBuf::from(DEFAULT_FILE)).filter(|f| f.exists()))
}

/// Loads the config; warnings go to the log.
///
/// # Errors
/// Every problem of the config, at once.
pub fn load(named: Option<&Path>) -> Result<Settings, Failure> {
    let settings = load_with_warnings(named)?;
    for warning in &settings.1 {
        tracing::warn!("{warning}");
    }
    Ok(settings.0)
}

/// Loads the config, and gives its warnings.
///
/// # Errors
/// Every problem of the config, at once.
pub fn load_with_warnings(named: Option<&Path>) -> Result<(Settings, Vec<String>), Failure> {
    let file = file(named);
    let loaded = match &file {
        Some(file) => Config::load(Some(file), &env),
        None => Config::parse("(built-in demo config)", demo::CONFIG, &env),
    };
    let Loaded { config, warnings } = loaded.map_err(Failure::config)?;
    Ok((Settings { config, file }, warnings.iter().map(ToString::to_string).collect()))
}
