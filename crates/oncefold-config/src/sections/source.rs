//! `[sources.X]`: one endpoint.

use crate::presets;
use crate::reader::{Node, Place, Schema, Table};
use crate::sections::projection::ReadProjection;
use crate::sections::respond::{self, Respond};
use crate::sections::secrets::Secrets;
use crate::sections::{certificates, handshake, identity, projection, secrets, verify};
use oncefold_core::Source;
use oncefold_core::id::{EntityKind, SourceName};
use oncefold_core::locator::Locator;
use oncefold_core::model::{BodyFormat, IdRule, Projection};
use oncefold_signature::{Handshake, Scheme, Secret, TokenPlace, Verifier};
use std::path::PathBuf;

pub(crate) const SCHEMA: Schema = Schema {
    title: "[sources.X]",
    keys: &[
        "preset",
        "secrets",
        "verify",
        "id",
        "type",
        "methods",
        "respond",
        "url",
        "certificates",
        "format",
        "split",
        "handshake",
        "content_encodings",
        "default_projections",
        "projections",
    ],
    later: &["api_versions", "fetch", "reconcile"],
};

const METHODS: [&str; 5] = ["GET", "POST", "PUT", "PATCH", "DELETE"];

/// One endpoint, ready to be used.
#[derive(Clone, Debug)]
pub struct SourceConfig {
    /// Where id and type stand, and what events change.
    pub model: Source,
    /// How deliveries are verified.
    pub scheme: Scheme,
    /// Any one may match. Never shown.
    pub secrets: Vec<Secret>,
    /// The scheme with its keys set up.
    pub verifier: Verifier,
    /// The HTTP methods that are taken, upper case.
    pub methods: Vec<String>,
    /// What an accepted delivery is answered.
    pub respond: Respond,
    /// Where the array stands whose elements are events; none where a delivery is one event.
    pub split: Option<Vec<String>>,
    /// How the provider tests the endpoint.
    pub handshake: Option<Handshake>,
    /// Whether bodies may come with `Content-Encoding: gzip`.
    pub takes_gzip: bool,
    /// Files that hold the source's secrets, to be looked at for changes.
    pub secret_files: Vec<PathBuf>,
    /// The URL the provider was given.
    pub public_url: Option<String>,
    /// Whether deliveries come to `/in/{source}/{token}`.
    pub path_token: bool,
    /// Where deliveries carry the secret itself.
    pub redact: Redact,
    /// The preset it started from.
    pub preset: Option<String>,
}

impl SourceConfig {
    /// The source's name.
    pub fn name(&self) -> &SourceName {
        &self.model.name
    }
}

/// What must be removed from a delivery before it is kept or shown; the token in the path besides
/// ([`SourceConfig::path_token`]).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Redact {
    /// Header names, lower case.
    pub headers: Vec<String>,
    /// Query parameters, decoded.
    pub query: Vec<String>,
}

/// A source as far as it could be read.
pub(crate) struct ReadSource {
    pub config: Option<SourceConfig>,
    /// Where secrets are written out.
    pub literal_secrets: Vec<Place>,
    /// Each projection's entity kind, whether it may be shared, where it is said.
    pub entities: Vec<(EntityKind, bool, Place)>,
}

/// Reads one source; `name` is its key.
pub(crate) fn read(name: &str, node: &Node<'_>) -> Option<ReadSource> {
    let valid_name = SourceName::parse(name);
    if let Err(e) = &valid_name {
        node.problem(e.to_string(), "rename the source: its name is part of the URL");
    }
    // Unknown keys are named once, of what the user wrote; what the preset adds is known.
    let own = node.table(&SCHEMA)?;
    let preset = own.get("preset").map(|n| (presets::named(&n), n));
    let merged = match (&preset, node.value.as_table()) {
        (Some((Some(preset), at)), Some(entries)) => Some(presets::merged(entries, preset, at)),
        _ => None,
    };
    let table = match &merged {
        Some(entries) => Table::known(node.context, entries, node.place.clone(), &SCHEMA),
        None => own.clone(),
    };
    let preset_failed = matches!(preset, Some((None, _)));
    let read = ReadParts::read(&table, &own, merged.is_some(), preset_failed);
    let preset_name = preset.as_ref().and_then(|(found, _)| found.as_ref()).map(|p| p.name.to_owned());
    read.into_source(valid_name.ok(), preset_name)
}

struct ReadParts {
    secrets: Secrets,
    scheme: Option<Scheme>,
    verifier: Option<Verifier>,
    id: IdRule,
    event_type: Locator,
    format: BodyFormat,
    split: Option<Vec<String>>,
    handshake: Option<Handshake>,
    secret_files: Vec<PathBuf>,
    takes_gzip: bool,
    methods: Vec<String>,
    respond: Respond,
    public_url: Option<String>,
    projections: Vec<ReadProjection>,
}

impl ReadParts {
    /// `table` has what the preset says too, `own` what the user wrote.
    fn read(table: &Table<'_>, own: &Table<'_>, has_preset: bool, preset_failed: bool) -> Self {
        let secrets = secrets::read(own);
        let known = table.context.problem_count();
        let mut scheme = match table.get("verify") {
            Some(node) => node.table(&verify::SCHEMA).and_then(|table| verify::read(&table)),
            None if preset_failed => None,
            None => verify::read(&table.section("verify", &verify::SCHEMA)),
        };
        let settings_are_sound = table.context.problem_count() == known;
        if let Some(node) = table.get("certificates") {
            certificates::read(&node, scheme.as_mut());
        }
        let takes_keys = scheme_name(table).is_some_and(|name| !["none", "sns"].contains(&name));
        if takes_keys && !secrets.stated {
            table.missing("secrets", "set it, such as secrets = [\"env:SHOP_SECRET\"]");
        }
        let public_url = table.get("url").and_then(|n| url(&n));
        let signs_url = scheme.as_ref().is_some_and(Scheme::signs_url);
        if signs_url && table.context.needs_urls && table.get("url").is_none() {
            table.missing("url", "the signature covers the URL: state the public URL the provider was given");
        }
        let verifier = scheme.as_ref().and_then(|scheme| prepare(table, scheme, &secrets, settings_are_sound));
        let projections = read_projections(table, own, has_preset, scheme.as_ref());
        let (id, event_type) = identity::read(table, !projections.is_empty() && !preset_failed);
        let format = table.get("format").map_or(BodyFormat::Json, |n| format(&n));
        let mut secret_files = secrets.files.clone();
        Self {
            split: table.get("split").and_then(|n| split(&n, &id, format)),
            handshake: table.get("handshake").and_then(|n| handshake::read(&n, scheme.as_ref(), &mut secret_files)),
            secret_files,
            takes_gzip: table.get("content_encodings").is_some_and(|n| content_encodings(&n)),
            secrets,
            scheme,
            verifier,
            id,
            event_type,
            format,
            methods: table.get("methods").map_or_else(|| vec!["POST".to_owned()], |n| methods(&n)),
            respond: table.get("respond").map_or_else(Respond::default, |n| respond::read(&n)),
            public_url,
            projections,
        }
    }

    fn into_source(self, name: Option<SourceName>, preset: Option<String>) -> Option<ReadSource> {
        let entities = self.projections.iter().filter_map(|p| p.entity.clone()).collect();
        let projections = named(self.projections.into_iter().filter_map(|p| p.projection).collect());
        let config = name.zip(self.scheme).zip(self.verifier).map(|((name, scheme), verifier)| SourceConfig {
            model: Source { name, id: self.id, event_type: self.event_type, format: self.format, projections },
            split: self.split,
            handshake: self.handshake,
            takes_gzip: self.takes_gzip,
            secret_files: self.secret_files,
            path_token: matches!(scheme.credential_place(), Some(TokenPlace::Path)),
            redact: redact(&scheme),
            scheme,
            secrets: self.secrets.values,
            verifier,
            methods: self.methods,
            respond: self.respond,
            public_url: self.public_url,
            preset,
        });
        Some(ReadSource { config, literal_secrets: self.secrets.literals, entities })
    }
}

/// The scheme as it is written, known or not.
fn scheme_name<'a>(table: &Table<'a>) -> Option<&'a str> {
    table.get("verify")?.value.as_table()?.get("scheme")?.get_ref().as_str()
}

/// Sets up the keys; each that cannot be used is named. What is wrong with the settings was said before.
fn prepare(table: &Table<'_>, scheme: &Scheme, secrets: &Secrets, settings_are_sound: bool) -> Option<Verifier> {
    let context = table.context;
    let no_keys = !scheme.takes_secrets();
    let mut sound = !secrets.broken && (secrets.stated || no_keys);
    for (secret, place) in secrets.values.iter().zip(&secrets.places).filter(|_| !no_keys) {
        if let Err(e) = scheme.prepare(std::slice::from_ref(secret))
            && (e.index.is_some() || settings_are_sound)
        {
            context.problem(place, e.problem, "set it to what the provider shows");
            sound = false;
        }
    }
    if !sound || !settings_are_sound {
        return None;
    }
    let secrets_place = table.get("secrets").map_or_else(|| table.place.clone(), |n| n.place);
    match scheme.prepare(&secrets.values) {
        Ok(verifier) => {
            let (place, mend) = match table.get("verify").filter(|_| no_keys) {
                Some(node) if *scheme == Scheme::None => {
                    (node.place, "use it only where a network or a proxy guards the source")
                }
                Some(node) => (node.place, "list them, so that nobody else's are taken"),
                None => (secrets_place, "ask the provider for another one, if it can be had"),
            };
            verifier.warnings().iter().for_each(|warning| context.warn(&place, warning.clone(), mend));
            Some(verifier)
        }
        Err(e) => {
            context.problem(&secrets_place, e.problem, "see `secrets` in the reference of the config");
            None
        }
    }
}

/// The user's own projections, then the preset's where they are asked for: so the names of the user's stay as they
/// are when the preset gains some.
fn read_projections(
    table: &Table<'_>,
    own: &Table<'_>,
    has_preset: bool,
    scheme: Option<&Scheme>,
) -> Vec<ReadProjection> {
    let signed_time = scheme.and_then(Scheme::timestamp_header).map(str::to_ascii_lowercase);
    let expected = "a list of tables, [[sources.X.projections]]";
    let mut nodes = own.get("projections").and_then(|n| n.items(expected)).unwrap_or_default();
    if let Some(node) = own.get("default_projections")
        && node.boolean() == Some(true)
    {
        let shipped =
            table.get("projections").filter(|_| has_preset).and_then(|n| n.items(expected)).unwrap_or_default();
        let shipped: Vec<_> = shipped.into_iter().skip(nodes.len()).collect();
        if shipped.is_empty() {
            node.problem("there are no default projections to take", "remove it, or state a preset that ships some");
        }
        nodes.extend(shipped);
    }
    nodes.iter().filter_map(|node| projection::read(node, signed_time.as_deref())).collect()
}

/// Names each: its entity kind, from the second of a kind on `KIND#N`.
fn named(mut projections: Vec<Projection>) -> Vec<Projection> {
    for index in 0..projections.len() {
        let kind = projections[index].entity.clone();
        let number = 1 + projections[..index].iter().filter(|p| p.entity == kind).count();
        if number > 1 {
            projections[index].name = format!("{kind}#{number}");
        }
    }
    projections
}

fn methods(node: &Node<'_>) -> Vec<String> {
    let choices = METHODS.map(|m| (m, m));
    let nodes = node.one_or_more();
    if nodes.is_empty() {
        node.problem("is an empty list", "list methods, such as [\"POST\"]");
    }
    let mut methods: Vec<_> = nodes.iter().filter_map(|n| n.choice(&choices)).map(str::to_owned).collect();
    methods.dedup();
    methods
}

fn format(node: &Node<'_>) -> BodyFormat {
    let formats = [("json", BodyFormat::Json), ("form", BodyFormat::Form), ("query", BodyFormat::Query)];
    node.choice(&formats).unwrap_or_default()
}

/// One event for each element of the array there.
fn split(node: &Node<'_>, id: &IdRule, format: BodyFormat) -> Option<Vec<String>> {
    let Locator::Pointer(tokens) = node.locator()? else {
        node.problem(
            "is no pointer into the body",
            "point to an array, such as \"/events\", or \"\" for the whole body",
        );
        return None;
    };
    if format != BodyFormat::Json {
        node.problem("only JSON has arrays to split", "remove it, or `format`");
    }
    let reads_elements = *id == IdRule::BodyDigest || id.places().into_iter().any(Locator::is_in_body);
    if !reads_elements {
        node.problem("all elements would have one id", "let `id` point into the element, such as { derive = [\"\"] }");
    }
    Some(tokens)
}

fn content_encodings(node: &Node<'_>) -> bool {
    let nodes = node.items("a list of encodings, such as [\"gzip\"]").unwrap_or_default();
    nodes.iter().filter_map(|n| n.choice(&[("gzip", ())])).count() > 0
}

fn url(node: &Node<'_>) -> Option<String> {
    let text = node.text("the public URL the provider was given")?;
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    let sound = rest.is_some_and(|rest| !rest.is_empty() && !rest.starts_with('/'))
        && text.bytes().all(|b| b.is_ascii_graphic());
    if !sound {
        node.problem("is no public URL", "write it as the provider has it, such as \"https://example.com/in/shop\"");
    }
    sound.then(|| text.to_owned())
}

fn redact(scheme: &Scheme) -> Redact {
    match scheme.credential_place() {
        Some(TokenPlace::Header(name)) => Redact { headers: vec![name.to_ascii_lowercase()], query: vec![] },
        Some(TokenPlace::Query(name)) => Redact { headers: vec![], query: vec![name] },
        Some(TokenPlace::Path) | None => Redact::default(),
    }
}
