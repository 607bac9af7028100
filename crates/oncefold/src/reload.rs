//! Secrets that change while a process runs: on SIGHUP, and when a file that holds some, or the config, changes. A config
//! that cannot be used is refused and said; what was in force stays. Everything else waits for a restart.

use crate::diagnosis::Diagnosis;
use crate::failure::Failure;
use crate::{intake, settings};
use anyhow::Context as _;
use oncefold_config::{Config, SourceConfig};
use oncefold_ingest::KeyRing;
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

/// How often files are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// What tells one content of a file from another without reading it: inode (a mounted secret is a link that is moved),
/// length, and time of change in seconds and nanoseconds. Nothing where it is not there.
type Stamp = Option<(u64, u64, i64, i64)>;

/// Reads secrets again.
pub struct Reload {
    file: Option<PathBuf>,
    hangup: Signal,
    /// Of intake, where it runs in this process.
    ring: Option<KeyRing>,
    diagnosis: Diagnosis,
    running: BTreeMap<String, Standing>,
    stamps: BTreeMap<PathBuf, Stamp>,
}

/// What of a source has to stay as it is until a restart, and the files to look at.
struct Standing {
    /// Scheme, where it looks for credentials, and the place of the secret in a delivery: what is redacted follows it.
    shape: String,
    files: Vec<PathBuf>,
}

impl Standing {
    fn of(source: &SourceConfig) -> Self {
        let shape = format!("{} {} {:?}", source.scheme.name(), source.path_token, source.redact);
        Self { shape, files: source.secret_files.clone() }
    }
}

impl Reload {
    /// For the sources of `config`, which came from `file`: what verifies deliveries, and what explains rejected ones.
    ///
    /// # Errors
    /// When the signal cannot be listened for.
    pub fn of(
        file: Option<PathBuf>,
        config: &Config,
        ring: Option<KeyRing>,
        diagnosis: Diagnosis,
    ) -> Result<Self, Failure> {
        let hangup = signal(SignalKind::hangup()).context("cannot listen for SIGHUP")?;
        let running = config.sources.iter().map(|source| (source.name().to_string(), Standing::of(source))).collect();
        let mut reload = Self { file, hangup, ring, diagnosis, running, stamps: BTreeMap::new() };
        reload.stamps = reload.look();
        Ok(reload)
    }

    /// Reads them whenever there is reason to, until it is stopped.
    ///
    /// # Errors
    /// None so far: a config that cannot be read is logged.
    pub async fn run_until_stopped(mut self, soft: CancellationToken) -> anyhow::Result<()> {
        let mut looks = interval(LOOK_EVERY);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let asked = tokio::select! {
                () = soft.cancelled() => return Ok(()),
                Some(()) = self.hangup.recv() => true,
                _ = looks.tick() => false,
            };
            let stamps = self.look();
            if asked || stamps != self.stamps {
                self.stamps = stamps;
                self.read();
            }
        }
    }

    /// The stamps of every file that matters.
    fn look(&self) -> BTreeMap<PathBuf, Stamp> {
        let files = self.file.iter().chain(self.running.values().flat_map(|standing| &standing.files));
        files.map(|file| (file.clone(), stamp(file))).collect()
    }

    fn read(&mut self) {
        let Some(file) = &self.file else {
            tracing::info!("there is no config file to read secrets from");
            return;
        };
        let loaded = match Config::load(Some(file), &settings::env) {
            Ok(loaded) => loaded,
            Err(problems) => {
                tracing::error!(%problems, "the config cannot be used: the secrets in force stay; mend it, or nothing changes");
                return;
            }
        };
        for warning in &loaded.warnings {
            tracing::warn!("{warning}");
        }
        let mut exchanged = 0;
        for source in &loaded.config.sources {
            let (name, fresh) = (source.name().to_string(), Standing::of(source));
            match self.running.get_mut(&name) {
                Some(standing) if standing.shape == fresh.shape => {
                    standing.files = fresh.files;
                    self.diagnosis.exchange(source);
                    let is_known = self.ring.as_ref().is_none_or(|ring| ring.exchange(&name, intake::keys(source)));
                    exchanged += usize::from(is_known);
                }
                Some(_) => tracing::warn!(source = name, "its scheme changed: restart to have it used"),
                None => tracing::warn!(source = name, "it is new: restart to have it used"),
            }
        }
        // A file that is named for the first time may have changed since it was read: it counts as not looked at yet.
        let known = std::mem::take(&mut self.stamps);
        let stamped = |file: PathBuf| {
            let stamp = known.get(&file).copied().flatten();
            (file, stamp)
        };
        self.stamps = self.look().into_keys().map(stamped).collect();
        tracing::info!(sources = exchanged, "secrets read again; other changes of the config need a restart");
    }
}

fn stamp(file: &Path) -> Stamp {
    let about = std::fs::metadata(file).ok()?;
    Some((about.ino(), about.len(), about.mtime(), about.mtime_nsec()))
}
