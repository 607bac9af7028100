//! A deployment of one test: a config in a scratch directory over a backend of its own.

use crate::process::Running;
use crate::services::{Database, Vhost, sqlite};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

/// Where the binary under test is: beside the test binary, or where `ONCEFOLD_E2E_BINARY` says (a release build, say).
pub fn binary() -> PathBuf {
    if let Some(path) = std::env::var_os("ONCEFOLD_E2E_BINARY") {
        return PathBuf::from(path);
    }
    let test = std::env::current_exe().expect("current exe");
    let name = "oncefold-under-test";
    test.ancestors().map(|dir| dir.join(name)).find(|path| path.is_file()).expect("the binary under test is built")
}

/// Which backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    /// SQLite + embedded queue.
    Embedded,
    /// PostgreSQL + RabbitMQ.
    Fleet,
}

/// A token of role operator that every deployment knows.
pub const OPERATOR: &str = "e2e-operator-token";
/// A token of role viewer that every deployment knows.
pub const VIEWER: &str = "e2e-viewer-token";
/// The SQLite file of an embedded one.
const FILE: &str = "e2e.db";

/// A deployment.
pub struct Deployment {
    dir: TempDir,
    /// Its backend.
    pub backend: Backend,
    /// Its database, of a fleet.
    pub database: Option<Database>,
    /// Its vhost, of a fleet.
    pub vhost: Option<Vhost>,
    urls: (String, String),
    sources: String,
}

impl Deployment {
    /// A deployment with these `[sources…]` (and other sections, if need be); migrated where that is the operator's.
    pub fn on(backend: Backend, sources: &str) -> Self {
        let dir = tempfile::Builder::new().prefix("oncefold-e2e-").tempdir().expect("scratch directory");
        let fleet = backend == Backend::Fleet;
        let (database, vhost) = (fleet.then(Database::create), fleet.then(Vhost::create));
        let urls = match (&database, &vhost) {
            (Some(database), Some(vhost)) => (database.url(), vhost.url()),
            _ => (format!("sqlite://{}", dir.path().join(FILE).display()), "embedded".to_owned()),
        };
        let deployment = Self { dir, backend, database, vhost, urls, sources: String::new() };
        let deployment = deployment.with_sources(sources);
        if fleet {
            let migrated = deployment.cli(&["migrate"]);
            assert!(migrated.status.success(), "{}", String::from_utf8_lossy(&migrated.stderr));
        }
        deployment
    }

    /// The same deployment with other sources, as after an edit of the config and a restart.
    #[must_use]
    pub fn with_sources(mut self, sources: &str) -> Self {
        self.sources = sources.to_owned();
        self.write();
        self
    }

    /// The same deployment, reaching its database or broker by other URLs (a proxy's).
    #[must_use]
    pub fn through(mut self, store: Option<String>, queue: Option<String>) -> Self {
        self.urls = (store.unwrap_or(self.urls.0), queue.unwrap_or(self.urls.1));
        self.write();
        self
    }

    /// Writes other sources into the config of running processes' file.
    pub fn rewrite(&mut self, sources: &str) {
        self.sources = sources.to_owned();
        self.write();
    }

    fn write(&self) {
        let hash = |token: &str| hex::encode(<sha2::Sha256 as sha2::Digest>::digest(token));
        let (store, queue) = &self.urls;
        let text = format!(
            "[store]\nurl = \"{store}\"\n[queue]\nurl = \"{queue}\"\n\
             [ingest]\nlisten = \"127.0.0.1:0\"\n[ops]\nlisten = \"127.0.0.1:0\"\n\
             [admin]\nlisten = \"127.0.0.1:0\"\n\
             tokens = [{{ name = \"op\", role = \"operator\", sha256 = \"{}\" }}, \
             {{ name = \"view\", role = \"viewer\", sha256 = \"{}\" }}]\n{}",
            hash(OPERATOR),
            hash(VIEWER),
            self.sources
        );
        std::fs::write(self.config(), text).expect("write config");
    }

    /// Its config file.
    pub fn config(&self) -> PathBuf {
        self.dir.path().join("oncefold.toml")
    }

    /// Its scratch directory.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Runs SQL in its store, as a team does in its own database.
    pub fn sql(&self, sql: &str) {
        match &self.database {
            Some(database) => drop(database.sql(sql)),
            None => sqlite(&self.dir.path().join(FILE), sql),
        }
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(binary());
        command.args(args).arg("--config").arg(self.config()).current_dir(self.dir.path());
        for name in ["ONCEFOLD_STORE_URL", "ONCEFOLD_QUEUE_URL", "ONCEFOLD_CONFIG", "ONCEFOLD_LOG"] {
            command.env_remove(name);
        }
        command
    }

    /// Starts a role, or `serve`.
    pub fn start(&self, args: &[&str]) -> Running {
        Running::start(&mut self.command(args))
    }

    /// Starts a role with more environment.
    pub fn start_with(&self, args: &[&str], env: &[(&str, &str)]) -> Running {
        Running::start(self.command(args).envs(env.iter().copied()))
    }

    /// Runs a command to its end.
    pub fn cli(&self, args: &[&str]) -> Output {
        self.command(args).output().expect("run the binary")
    }

    /// Runs a command that has to succeed; gives its JSON.
    pub fn cli_json(&self, args: &[&str]) -> serde_json::Value {
        let out = self.cli(&[args, &["--json"]].concat());
        assert!(out.status.success(), "{args:?}: {}", String::from_utf8_lossy(&out.stderr));
        serde_json::from_slice(&out.stdout).unwrap_or_else(|e| panic!("{args:?}: {e}: {:?}", out.stdout))
    }
}
