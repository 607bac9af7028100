//! Loading: from a file and the environment to a config, or to everything that is wrong with them.

use crate::problem::{Problem, Problems};
use crate::reader::{Context, Place, Table, quoted};
use crate::sections::admin::{self, Admin};
use crate::sections::ingest::{self, Ingest};
use crate::sections::ops::{self, OpsListen};
use crate::sections::retention::{self, Retention};
use crate::sections::source::{self, ReadSource, SourceConfig};
use crate::sections::worker::{self, Worker};
use crate::sections::{queue, retry, root, store};
use crate::url::{QueueUrl, StoreUrl};
use oncefold_core::retry::RetryPolicy;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use toml::de::DeTable;

/// Most bytes of a config file.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Everything the roles need, validated. `Debug` shows no secret.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where events and entities are kept.
    pub store: StoreUrl,
    /// What carries events; goes with the store.
    pub queue: QueueUrl,
    /// Intake.
    pub ingest: Ingest,
    /// The admin API.
    pub admin: Admin,
    /// Metrics and health.
    pub ops: OpsListen,
    /// Workers.
    pub worker: Worker,
    /// How failed attempts are spaced.
    pub retry: RetryPolicy,
    /// How long what is settled is kept.
    pub retention: Retention,
    /// The endpoints, by name.
    pub sources: Vec<SourceConfig>,
}

/// A config, and what is unwise about it.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The config.
    pub config: Config,
    /// In the order of the file.
    pub warnings: Vec<Problem>,
}

/// One source, and what is unwise about it.
#[derive(Clone, Debug)]
pub struct LoadedSource {
    /// The source.
    pub source: SourceConfig,
    /// In the order of the file.
    pub warnings: Vec<Problem>,
}

impl Config {
    /// Reads the file, if there is one, and the environment. Without a file: the defaults, and no sources.
    ///
    /// # Errors
    /// Everything that is wrong with them, each with its line and mend.
    pub fn load(path: Option<&Path>, env: &dyn Fn(&str) -> Option<String>) -> Result<Loaded, Problems> {
        let (file, text) = match path {
            Some(path) => (path.display().to_string(), read_file(path)?),
            None => ("defaults".to_owned(), String::new()),
        };
        Self::parse(&file, &text, env)
    }

    /// Reads `text`, which is shown as standing in `file`, and the environment.
    ///
    /// # Errors
    /// As [`Config::load`].
    pub fn parse(file: &str, text: &str, env: &dyn Fn(&str) -> Option<String>) -> Result<Loaded, Problems> {
        let context = Context::new(file, text, env);
        let document = parse_toml(&context, text);
        let config = document.and_then(|document| read(&context, &document));
        let warnings = context.finish()?;
        match config {
            Some(config) => Ok(Loaded { config, warnings }),
            None => Err(unexplained(file)),
        }
    }

    /// The source of this name.
    pub fn source(&self, name: &str) -> Option<&SourceConfig> {
        self.sources.iter().find(|s| s.name().as_str() == name)
    }
}

/// Reads one `[sources.X]` table of a file; the rest need not be there, nor be valid, and neither does a `url`: without
/// it a scheme that signs the URL refuses requests that bring none.
///
/// # Errors
/// Everything that is wrong with that source, or that it is not there.
pub fn load_source(path: &Path, name: &str, env: &dyn Fn(&str) -> Option<String>) -> Result<LoadedSource, Problems> {
    let file = path.display().to_string();
    let text = read_file(path)?;
    let context = Context::of_one_source(&file, &text, env);
    let document = parse_toml(&context, &text);
    let source = document.and_then(|document| read_one_source(&context, &document, name));
    let warnings = context.finish()?;
    match source {
        Some(source) => Ok(LoadedSource { source, warnings }),
        None => Err(unexplained(&file)),
    }
}

/// Whatever cannot be read records why; this says so if that were ever forgotten.
fn unexplained(file: &str) -> Problems {
    let problem = about_file(file, "cannot be used", "report this as a fault of oncefold");
    Problems { problems: vec![problem], warnings: vec![] }
}

fn about_file(file: &str, message: impl Into<String>, mend: &str) -> Problem {
    Problem {
        file: file.to_owned(),
        line: None,
        column: None,
        path: String::new(),
        message: message.into(),
        mend: mend.to_owned(),
    }
}

fn read_file(path: &Path) -> Result<String, Problems> {
    let file = path.display().to_string();
    let refused =
        |message: String, mend: &str| Problems { problems: vec![about_file(&file, message, mend)], warnings: vec![] };
    let length = std::fs::metadata(path).map_or(0, |m| m.len());
    if length > FILE_BYTES_MAX {
        return Err(refused("is larger than 1MiB".to_owned(), "point --config to an oncefold.toml"));
    }
    std::fs::read_to_string(path)
        .map_err(|e| refused(format!("cannot be read: {e}"), "check the path, or name another with --config"))
}

fn parse_toml<'a>(context: &Context<'_>, text: &'a str) -> Option<DeTable<'a>> {
    let (document, errors) = DeTable::parse_recoverable(text);
    errors.iter().for_each(|e| context.syntax(e));
    errors.is_empty().then(|| document.into_inner())
}

fn read<'a>(context: &'a Context<'a>, document: &'a DeTable<'a>) -> Option<Config> {
    let top = Place { path: String::new(), offset: Some(0) };
    let root = Table::open(context, document, top, &root::SCHEMA);
    let store = store::read(&root);
    let queue = queue::read(&root);
    if let (Some(store), Some(queue)) = (&store, &queue) {
        queue::check_pair(context, store, queue);
    }
    let ingest = ingest::read(&root);
    let admin = admin::read(&root);
    let ops = ops::read(&root);
    let worker = worker::read(&root);
    let retry = retry::read(&root);
    let retention = retention::read(&root);
    let sources = read_sources(&root);
    warn_of_literals(context, &sources, &ingest);
    check_shared(context, &sources);
    check_epochs(context, &sources);
    Some(Config {
        store: store?.0,
        queue: queue?.0,
        ingest,
        admin,
        ops,
        worker,
        retry,
        retention,
        sources: sources.into_iter().filter_map(|s| s.config).collect(),
    })
}

fn read_sources(root: &Table<'_>) -> Vec<ReadSource> {
    let members = root.get("sources").and_then(|n| n.members("tables named [sources.NAME]")).unwrap_or_default();
    members.iter().filter_map(|(name, node)| source::read(name, node)).collect()
}

fn read_one_source<'a>(context: &'a Context<'a>, document: &'a DeTable<'a>, name: &str) -> Option<SourceConfig> {
    let top = Place { path: String::new(), offset: Some(0) };
    let root = Table::known(context, document, top, &root::SCHEMA);
    let members = root.get("sources").and_then(|n| n.members("tables named [sources.NAME]")).unwrap_or_default();
    if let Some((name, node)) = members.iter().find(|(member, _)| *member == name) {
        return source::read(name, node)?.config;
    }
    let names: Vec<_> = members.iter().map(|(name, _)| *name).collect();
    let mend = match names.as_slice() {
        [] => "add a [sources.NAME] table".to_owned(),
        names => format!("choose one of {}", names.join(", ")),
    };
    context.problem(&root.place, format!("there is no source {}", quoted(name)), mend);
    None
}

fn warn_of_literals(context: &Context<'_>, sources: &[ReadSource], ingest: &Ingest) {
    if ingest.listen.ip().is_loopback() {
        return;
    }
    for place in sources.iter().flat_map(|s| &s.literal_secrets) {
        context.warn(
            place,
            "the secret is written out in the config, and intake is not on loopback",
            "put it into the environment or a file, and write \"env:NAME\" or \"file:/path\"",
        );
    }
}

/// An entity kind that several sources write has one order of changes only if their versions compare: somebody has to
/// have said that they do.
fn check_shared(context: &Context<'_>, sources: &[ReadSource]) {
    let writers = |kind| sources.iter().filter(|s| s.entities.iter().any(|(k, ..)| k == kind)).count();
    for (kind, shared, place) in sources.iter().flat_map(|s| &s.entities) {
        if !shared && writers(kind) > 1 {
            context.problem(
                place,
                format!("several sources write entity kind `{kind}`"),
                "set `shared = true` on each such projection if their keys and versions compare (those of a preset have to be \
                 pasted for that), or rename one",
            );
        }
    }
}

/// The epoch is the most significant part of an order key: beside a projection of a higher epoch, another one of the
/// same entity kind could never change anything again.
fn check_epochs(context: &Context<'_>, sources: &[ReadSource]) {
    let configs = || sources.iter().filter_map(|s| s.config.as_ref());
    let mut kinds = BTreeMap::new();
    for (kind, _, place) in sources.iter().flat_map(|s| &s.entities) {
        kinds.entry(kind.clone()).or_insert(place);
    }
    for (kind, place) in kinds {
        let of_kind = configs().flat_map(|c| &c.model.projections).filter(|p| p.entity == kind);
        let epochs: BTreeSet<u32> = of_kind.map(|p| p.epoch).collect();
        if let (Some(highest), true) = (epochs.last(), epochs.len() > 1) {
            context.problem(
                place,
                format!("projections of entity kind `{kind}` state different epochs"),
                format!("set `epoch = {highest}` on each projection that writes this kind"),
            );
        }
    }
}
