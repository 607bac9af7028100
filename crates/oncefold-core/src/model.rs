//! The source model: what the config says of a source, ready to be used; validated where it is read.

use crate::glob::Glob;
use crate::id::{Digest, EntityKind, SourceName};
use crate::locator::Locator;
use crate::version::{VersionKind, VersionRule};
use serde_json::{Value, json};
use std::time::Duration;

/// One configured endpoint: where its deliveries carry id and type, and what they change.
#[derive(Clone, Debug)]
pub struct Source {
    /// Its name.
    pub name: SourceName,
    /// Where the event id stands.
    pub id: IdRule,
    /// Where the event type stands.
    pub event_type: Locator,
    /// How bodies are written.
    pub format: BodyFormat,
    /// Which event types change which entities.
    pub projections: Vec<Projection>,
}

/// How a source writes what it sends. The exact bytes are kept in any case; this is how pointers look into them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BodyFormat {
    /// JSON.
    #[default]
    Json,
    /// A form (`application/x-www-form-urlencoded`), seen as an object of texts; a repeated name is a list of texts.
    Form,
    /// A query string: the event's bytes are what stands behind the `?`, seen as a form is. Where a request has a body
    /// all the same, that is the event, and it is a form.
    Query,
}

/// Where an event's id stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IdRule {
    /// The texts at these places; more than one are joined with `:` (`:` and `\` inside parts escaped with `\`).
    Parts(Vec<Locator>),
    /// The first of these lists of parts of which every part is there, such as the id headers of Svix and of Standard
    /// Webhooks.
    FirstOf(Vec<Vec<Locator>>),
    /// A length-prefixed SHA-256 over the values at these places.
    Derive {
        /// The places.
        places: Vec<Locator>,
        /// Where there is one: the same values are another event once the next window has begun. Windows follow one
        /// another from the Unix epoch on, whatever the process: the window is a part of the id that intake gives. So a
        /// repeat that comes across the boundary of two windows is an event of its own.
        window: Option<Duration>,
    },
    /// SHA-256 of the exact body.
    BodyDigest,
}

impl IdRule {
    /// Every place that it looks at.
    pub fn places(&self) -> Vec<&Locator> {
        let places: Vec<_> = match self {
            Self::Parts(places) | Self::Derive { places, .. } => places.iter().collect(),
            Self::FirstOf(lists) => lists.iter().flatten().collect(),
            Self::BodyDigest => vec![],
        };
        places.into_iter().flat_map(Locator::leaves).collect()
    }

    /// As the fingerprint has it.
    fn describe(&self) -> Value {
        match self {
            Self::Parts(places) => json!({"parts": texts(places)}),
            Self::FirstOf(lists) => {
                let shown = lists.iter().map(|parts| match texts(parts).as_slice() {
                    [sole] => json!(sole),
                    several => json!(several),
                });
                json!({"first": shown.collect::<Vec<_>>()})
            }
            Self::Derive { places, window: None } => json!({"derive": texts(places)}),
            Self::Derive { places, window: Some(window) } => {
                json!({"derive": texts(places), "window_s": window.as_secs()})
            }
            Self::BodyDigest => json!("body"),
        }
    }
}

fn texts(places: &[Locator]) -> Vec<String> {
    places.iter().map(ToString::to_string).collect()
}

/// A rule of a source: which event types change which kind of entity, under which key, in which order.
#[derive(Clone, Debug)]
pub struct Projection {
    /// Its name among the source's projections: the entity kind, from the second of a kind on `KIND#N`.
    pub name: String,
    /// The event types it is about.
    pub on: Vec<Glob>,
    /// The kind of entity it changes.
    pub entity: EntityKind,
    /// Parts of the entity's key.
    pub key: Vec<Locator>,
    /// Elements of the version.
    pub version: Vec<VersionRule>,
    /// What breaks ties of versions.
    pub rank: RankRule,
    /// What the state is.
    pub state: StateRule,
    /// The event types that delete.
    pub delete_on: Vec<Glob>,
    /// Elements of a delete's version, where deletes carry another one; empty: as `version`.
    pub delete_version: Vec<VersionRule>,
    /// The number of its rules of identity and order; raised by the user when they change.
    pub epoch: u32,
}

impl Projection {
    /// Every place that its rules look at.
    pub fn places(&self) -> impl Iterator<Item = &Locator> {
        let versions = self.version.iter().chain(&self.delete_version).filter_map(VersionRule::place);
        let rank = match &self.rank {
            RankRule::Value { at, .. } => Some(at),
            RankRule::None | RankRule::Types(_) => None,
        };
        let fields = match &self.state {
            StateRule::Whole => &[][..],
            StateRule::Fields(fields) => fields,
        };
        let places = self.key.iter().chain(versions).chain(rank).chain(fields.iter().map(|field| &field.at));
        places.flat_map(Locator::leaves)
    }

    /// Whether events of this type change the entity; and if so, whether they delete it.
    pub fn concerns(&self, event_type: &str) -> Option<Effect> {
        if self.delete_on.iter().any(|g| g.matches(event_type)) {
            return Some(Effect::Delete);
        }
        self.on.iter().any(|g| g.matches(event_type)).then_some(Effect::Replace)
    }

    /// Digest of what decides identity and order. A store that knows another one under the same epoch is refused,
    /// since keys made under different rules do not compare. The text it is taken of is part of the stored format:
    /// it must not change for rules that do not change.
    pub fn fingerprint(&self, id: &IdRule) -> Digest {
        let versions = |rules: &[VersionRule]| rules.iter().map(VersionRule::describe).collect::<Vec<_>>();
        let rank = match &self.rank {
            RankRule::None => json!(null),
            RankRule::Types(types) => json!({"types": types.iter().map(Glob::as_str).collect::<Vec<_>>()}),
            RankRule::Value { at, order } => json!({"at": at.to_string(), "order": order}),
        };
        let rules = json!({
            "mode": "replace",
            "id": id.describe(),
            "entity": self.entity,
            "key": texts(&self.key),
            "version": versions(&self.version),
            "delete_version": versions(&self.delete_version),
            "rank": rank,
        });
        Digest::of(rules.to_string().as_bytes())
    }
}

/// What an event does to an entity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The state is a snapshot and replaces the whole.
    Replace,
    /// The entity becomes a tombstone.
    Delete,
}

/// What breaks ties of versions: the position in a list, later wins, unlisted is lowest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RankRule {
    /// Nothing but the digest does.
    None,
    /// The event type's position.
    Types(Vec<Glob>),
    /// The position of the value that stands there.
    Value {
        /// Where the value stands.
        at: Locator,
        /// The values, lowest first.
        order: Vec<String>,
    },
}

/// What an entity's state is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StateRule {
    /// The whole body.
    Whole,
    /// These fields.
    Fields(Vec<FieldRule>),
}

/// One field of a state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldRule {
    /// Its name.
    pub name: String,
    /// Where its value stands; null where that is absent.
    pub at: Locator,
    /// What it is turned into; as it is where that is not stated.
    pub kind: Option<FieldKind>,
}

/// What a field's value is turned into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldKind {
    /// A text.
    Text,
    /// A boolean, from a boolean or the texts `true` and `false`.
    Bool,
    /// An exact number or RFC 3339 UTC instant, read as in a version.
    Version(VersionKind),
}

impl FieldKind {
    /// The kind of this name in the config.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "text" => Some(Self::Text),
            "bool" => Some(Self::Bool),
            _ => VersionKind::parse(text).map(Self::Version),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Stored fingerprints of deployed configs must stay what they are.
    #[test]
    fn fingerprints_are_of_a_stable_text() {
        let at = |text: &str| Locator::parse(text).unwrap();
        let projection = Projection {
            name: "order".into(),
            on: vec![Glob::parse("order.*")],
            entity: EntityKind::parse("order").unwrap(),
            key: vec![at("/id")],
            version: vec![
                VersionRule::At { at: at("/v"), kind: Some(VersionKind::Int), zone: None },
                VersionRule::ReceivedAt,
            ],
            rank: RankRule::Types(vec![Glob::parse("a"), Glob::parse("b")]),
            state: StateRule::Whole,
            delete_on: vec![],
            delete_version: vec![],
            epoch: 1,
        };
        let id = IdRule::Parts(vec![at("header:X-Id")]);
        let text = r#"{"delete_version":[],"entity":"order","id":{"parts":["header:x-id"]},"key":["/id"],"mode":"replace","rank":{"types":["a","b"]},"version":["/v int","received_at"]}"#;
        assert_eq!(projection.fingerprint(&id), Digest::of(text.as_bytes()));
        let renamed = Projection { state: StateRule::Fields(vec![]), on: vec![], ..projection.clone() };
        assert_eq!(renamed.fingerprint(&id), projection.fingerprint(&id), "what is mapped needs no epoch");
        let rekeyed = Projection { key: vec![at("/other")], ..projection.clone() };
        assert_ne!(rekeyed.fingerprint(&id), projection.fingerprint(&id));
        assert_ne!(projection.fingerprint(&IdRule::BodyDigest), projection.fingerprint(&id));
        let first = IdRule::FirstOf(vec![vec![at("/a")], vec![at("/b"), at("/c")]]);
        assert_eq!(first.describe().to_string(), r#"{"first":["/a",["/b","/c"]]}"#);
        let derive = |window| IdRule::Derive { places: vec![at("/a")], window };
        assert_eq!(derive(None).describe().to_string(), r#"{"derive":["/a"]}"#);
        assert_ne!(derive(None).describe(), derive(Some(Duration::from_secs(900))).describe());
    }
}
