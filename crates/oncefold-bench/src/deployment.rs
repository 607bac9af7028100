//! Deployments of the product and of ceilings.

use crate::event;
use crate::process::Running;
use crate::services::{Place, root};
use anyhow::{Context as _, Result, bail};
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// Whose programs run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Product,
    Ceiling,
}

/// Builds the product as this program was built, and tells where it is.
pub fn build_product() -> Result<PathBuf> {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root()).args(["build", "--quiet", "--locked", "-p", "oncefold"]);
    if !cfg!(debug_assertions) {
        command.arg("--release");
    }
    if !command.status().context("cargo")?.success() {
        bail!("the product does not build");
    }
    let bench = std::env::current_exe()?;
    let product = bench.with_file_name("oncefold");
    if !product.is_file() {
        bail!("no product beside {}: run the bench through cargo", bench.display());
    }
    Ok(product)
}

/// A place for files and the config of a fleet: database, virtual host, processes of either side.
pub struct Fleet {
    product: PathBuf,
    place: Place,
    dir: TempDir,
}

impl Fleet {
    /// Makes one, migrated.
    pub async fn create(product: &Path) -> Result<Self> {
        let dir = scratch()?;
        let place = Place::create().await?;
        write_config(dir.path(), &place.store_url(), &place.queue_url())?;
        let fleet = Self { product: product.to_path_buf(), place, dir };
        let migrated = product_command(product, &["migrate"], fleet.dir.path()).output()?;
        if !migrated.status.success() {
            bail!("migrate: {}", String::from_utf8_lossy(&migrated.stderr));
        }
        Ok(fleet)
    }

    /// The URL of its database.
    pub fn store_url(&self) -> String {
        self.place.store_url()
    }

    /// The URL of its virtual host.
    pub fn queue_url(&self) -> String {
        self.place.queue_url()
    }

    /// Starts an intake.
    pub fn ingest(&self, side: Side) -> Result<Running> {
        match side {
            Side::Product => self.product_role("ingest"),
            Side::Ceiling => ceiling(&["ingest", "--queue", &self.queue_url()], self.dir.path()),
        }
    }

    /// Starts a worker.
    pub fn worker(&self, side: Side) -> Result<Running> {
        match side {
            Side::Product => self.product_role("worker"),
            Side::Ceiling => {
                let (queue, store) = (self.queue_url(), self.store_url());
                ceiling(&["worker", "--queue", &queue, "--store", &store], self.dir.path())
            }
        }
    }

    fn product_role(&self, role: &str) -> Result<Running> {
        Running::start(&mut product_command(&self.product, &[role], self.dir.path()), self.dir.path())
    }

    /// Drops database and virtual host.
    pub async fn remove(self) -> Result<()> {
        self.place.remove().await
    }
}

/// One SQLite file and its directory.
pub struct Embedded {
    product: PathBuf,
    dir: TempDir,
}

impl Embedded {
    /// Makes a directory for a file, empty or a copy of another one's.
    pub fn create(product: &Path, copied: Option<&Path>) -> Result<Self> {
        let embedded = Self { product: product.to_path_buf(), dir: scratch()? };
        write_config(embedded.dir.path(), &format!("sqlite://{}", embedded.file().display()), "embedded")?;
        if let Some(file) = copied {
            std::fs::copy(file, embedded.file())?;
        }
        Ok(embedded)
    }

    /// The file.
    pub fn file(&self) -> PathBuf {
        self.dir.path().join("bench.db")
    }

    /// The product's binary.
    pub fn product(&self) -> &Path {
        &self.product
    }

    /// Starts everything on it.
    pub fn serve(&self, side: Side) -> Result<Running> {
        match side {
            Side::Product => {
                Running::start(&mut product_command(&self.product, &["serve"], self.dir.path()), self.dir.path())
            }
            Side::Ceiling => {
                let file = self.file().display().to_string();
                ceiling(&["embedded", "--file", &file], self.dir.path())
            }
        }
    }
}

fn scratch() -> Result<TempDir> {
    // Under target: a temporary directory may be in memory, where nothing is ever synced.
    let parent = root().join("target/bench");
    std::fs::create_dir_all(&parent)?;
    tempfile::Builder::new().prefix("run-").tempdir_in(parent).context("scratch directory")
}

fn write_config(dir: &Path, store: &str, queue: &str) -> Result<()> {
    let sources = event::source_config();
    let text = format!(
        "[store]\nurl = \"{store}\"\n[queue]\nurl = \"{queue}\"\n[ingest]\nlisten = \"127.0.0.1:0\"\n\
         [admin]\nlisten = \"127.0.0.1:0\"\n[ops]\nlisten = \"127.0.0.1:0\"\n{sources}"
    );
    std::fs::write(dir.join("oncefold.toml"), text).context("config")
}

fn product_command(product: &Path, args: &[&str], dir: &Path) -> Command {
    let mut command = Command::new(product);
    command.args(args).current_dir(dir);
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("ONCEFOLD_")) {
        command.env_remove(name);
    }
    command
}

fn ceiling(args: &[&str], dir: &Path) -> Result<Running> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("ceiling").args(args);
    Running::start(&mut command, dir)
}
