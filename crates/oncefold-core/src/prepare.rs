//! Preparing: from exact bytes and a source's rules to an event's identity and its changes. Pure, so that intake,
//! workers, replays and rehearsals read a delivery alike.

use crate::change::Change;
use crate::event::Setback;
use crate::id::Digest;
use crate::json::{self, JsonError};
use crate::limits::{EVENT_ID_BYTES_MAX, KEY_BYTES_MAX, TYPE_BYTES_MAX};
use crate::locator::{Document, Locator};
use crate::message::{Facts, Message};
use crate::model::{BodyFormat, Effect, FieldKind, FieldRule, IdRule, Projection, RankRule, Source, StateRule};
use crate::order_key::{OrderKey, OrderKeyParts};
use crate::outline::Outline;
use crate::reason::{Failure, Reason};
use crate::time::Timestamp;
use crate::version::{self, VersionKind};
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};
use std::sync::Arc;
use std::time::Duration;

/// What an event is called and what it is about; each with a reason where the delivery does not say.
#[derive(Debug)]
pub struct Identity {
    /// Unique at its source.
    pub event_id: Result<String, Failure>,
    /// The event type.
    pub event_type: Result<String, Failure>,
}

/// What a worker is to do with an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Plan {
    /// These changes go through the guard.
    Apply(Vec<Change>),
    /// No projection is about its type.
    Ignore,
    /// It cannot be applied, for now or for good.
    Setback(Setback),
}

/// An event as it is about to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prepared {
    /// The event type, where the delivery says.
    pub event_type: Option<String>,
    /// What is to be done.
    pub plan: Plan,
}

impl Prepared {
    /// An event that is dead for this reason.
    pub fn dead(event_type: Option<String>, failure: Failure) -> Self {
        Self { event_type, plan: Plan::Setback(Setback::Dead(failure)) }
    }
}

/// Reads a body as the source writes it; of JSON no more than the outline's parts.
///
/// # Errors
/// When it is not in that form.
pub fn read(format: BodyFormat, body: &[u8], parts: &Outline) -> Result<Value, JsonError> {
    match format {
        BodyFormat::Json => parts.read(body),
        BodyFormat::Form | BodyFormat::Query => Ok(form(body)),
    }
}

/// A form as an object of texts; a name that is there several times has a list of them.
fn form(body: &[u8]) -> Value {
    let mut members = Map::new();
    for (name, text) in form_urlencoded::parse(body) {
        let text = Value::String(text.into_owned());
        match members.get_mut(name.as_ref()) {
            None => drop(members.insert(name.into_owned(), text)),
            Some(Value::Array(texts)) => texts.push(text),
            Some(first) => *first = Value::Array(vec![first.take(), text]),
        }
    }
    Value::Object(members)
}

/// Reads an event's id and type by the source's rules; `received_at` decides its window, where ids have one.
pub fn identify(source: &Source, document: &Document<'_>, digest: &Digest, received_at: Timestamp) -> Identity {
    let event_id = match &source.id {
        IdRule::BodyDigest => Ok(Message::fallback_event_id(digest)),
        IdRule::Derive { places, window } => derived_id(places, *window, document, received_at),
        IdRule::Parts(places) => id_of_parts(places, document),
        IdRule::FirstOf(lists) => id_of_first(lists, document),
    };
    Identity { event_id, event_type: event_type(&source.event_type, document) }
}

/// What [`identify`] reads of a body.
pub fn identity_outline(source: &Source) -> Outline {
    Outline::of(identity_places(source))
}

fn identity_places(source: &Source) -> Vec<&Locator> {
    [source.id.places(), vec![&source.event_type]].concat()
}

/// A source with what is worked out of its rules once, for all its messages.
#[derive(Clone, Debug)]
pub struct Preparer {
    source: Arc<Source>,
    outline: Outline,
    /// Whether any rule looks at headers or query; if none does, the facts need not be read.
    needs_facts: bool,
}

impl Preparer {
    /// Makes it ready.
    pub fn of(source: Arc<Source>) -> Self {
        let projections = &source.projections;
        let places: Vec<_> =
            identity_places(&source).into_iter().chain(projections.iter().flat_map(Projection::places)).collect();
        let needs_facts = places.iter().any(|place| place.is_outside_body());
        let is_whole = projections.iter().any(|projection| projection.state == StateRule::Whole);
        let outline = if is_whole { Outline::whole() } else { Outline::of(places) };
        Self { source, outline, needs_facts }
    }

    /// Works out what `message` means for the entities of the source.
    pub fn prepare(&self, message: &Message) -> Prepared {
        let source = &*self.source;
        let facts = if self.needs_facts { message.facts.decode() } else { Facts::default() };
        let parsed = read(source.format, &message.body, &self.outline);
        let document = Document { json: parsed.as_ref().ok(), headers: &facts.headers, query: &facts.query };
        let identity = identify(source, &document, &message.digest, message.received_at);
        if let Err(e) = &parsed {
            return Prepared::dead(identity.event_type.ok(), Failure::of(Reason::InvalidJson, e.to_string()));
        }
        if let Err(failure) = identity.event_id {
            return Prepared::dead(identity.event_type.ok(), failure);
        }
        let event_type = match identity.event_type {
            Ok(event_type) => event_type,
            Err(failure) => return Prepared::dead(None, failure),
        };
        let changes = source.projections.iter().filter_map(|projection| {
            let effect = projection.concerns(&event_type)?;
            Some(change(projection, effect, &Input { document: &document, event_type: &event_type, message, source }))
        });
        let plan = match changes.collect::<Result<Vec<_>, _>>() {
            Ok(changes) if changes.is_empty() => Plan::Ignore,
            Ok(changes) => Plan::Apply(changes),
            Err(failure) => Plan::Setback(Setback::Dead(failure)),
        };
        Prepared { event_type: Some(event_type), plan }
    }
}

fn id_of_first(lists: &[Vec<Locator>], document: &Document<'_>) -> Result<String, Failure> {
    let is_there = |place: &Locator| place.find(document).is_some_and(|value| !value.is_null());
    match lists.iter().find(|parts| parts.iter().all(|place| place.is_optional() || is_there(place))) {
        Some(parts) => id_of_parts(parts, document),
        None => {
            let named: Vec<_> = lists.iter().map(|parts| named(parts)).collect();
            Err(Failure::of(Reason::MissingId, format!("there is no event id at {}", named.join(" or "))))
        }
    }
}

fn named(parts: &[Locator]) -> String {
    parts.iter().map(Locator::to_string).collect::<Vec<_>>().join(" and ")
}

fn id_of_parts(places: &[Locator], document: &Document<'_>) -> Result<String, Failure> {
    let mut parts = vec![];
    for place in places {
        match place.find(document).as_deref() {
            Some(Value::String(text)) if !text.is_empty() => parts.push(text.clone()),
            None if place.is_optional() => {}
            Some(Value::String(_)) => {
                return Err(Failure::of(Reason::MissingId, format!("the event id at {place} is empty")));
            }
            Some(_) => return Err(Failure::of(Reason::MissingId, format!("the event id at {place} is not text"))),
            None => return Err(Failure::of(Reason::MissingId, format!("there is no event id at {place}"))),
        }
    }
    if parts.is_empty() {
        return Err(Failure::of(Reason::MissingId, format!("there is no event id at {}", named(places))));
    }
    let id = join(places, parts);
    if id.len() > EVENT_ID_BYTES_MAX {
        let message = format!("the event id is {} bytes long, at most {EVENT_ID_BYTES_MAX} are taken", id.len());
        return Err(Failure::of(Reason::BadId, message));
    }
    if id.contains('\0') {
        return Err(Failure::of(Reason::BadId, "the event id holds a NUL"));
    }
    if is_variant_name(&id) {
        return Err(Failure::of(Reason::BadId, "the event id ends like the name of a variant (`~` and 64 hex digits)"));
    }
    Ok(id)
}

/// Whether an id could be taken for what a variant of another event is kept under
/// ([`crate::store::variant_event_id`]).
fn is_variant_name(id: &str) -> bool {
    id.rsplit_once('~').is_some_and(|(_, digest)| Digest::parse_hex(digest).is_some())
}

/// SHA-256 over each value's canonical JSON, its length before it, so that no two lists of values run together; and the
/// start of the window, where there is one.
fn derived_id(
    places: &[Locator],
    window: Option<Duration>,
    document: &Document<'_>,
    received_at: Timestamp,
) -> Result<String, Failure> {
    let values: Vec<_> = places.iter().map(|place| place.find(document)).collect();
    if values.iter().all(Option::is_none) {
        return Err(Failure::of(Reason::MissingId, "nothing stands where the event id is derived from"));
    }
    let mut hasher = Sha256::new();
    for value in values {
        let text = value.map(|v| v.to_string()).unwrap_or_default();
        hasher.update((text.len() as u64).to_be_bytes());
        hasher.update(text);
    }
    let digest = hex::encode(hasher.finalize());
    let length_s = window.and_then(|window| i64::try_from(window.as_secs()).ok()).filter(|length| *length > 0);
    Ok(match length_s {
        None => format!("derived:{digest}"),
        Some(length_s) => {
            let seconds = received_at.as_micros().div_euclid(1_000_000);
            format!("derived:{digest}@{}", seconds - seconds.rem_euclid(length_s))
        }
    })
}

fn event_type(place: &Locator, document: &Document<'_>) -> Result<String, Failure> {
    let found = place.find(document);
    let text = match found.as_deref() {
        None | Some(Value::Null) => {
            return Err(Failure::of(Reason::MissingType, format!("there is no event type at {place}")));
        }
        Some(Value::String(text)) if text.is_empty() => {
            return Err(Failure::of(Reason::MissingType, format!("the event type at {place} is empty")));
        }
        Some(Value::String(text)) => text,
        Some(_) => return Err(Failure::of(Reason::BadType, format!("the event type at {place} is not text"))),
    };
    if text.len() > TYPE_BYTES_MAX {
        let message = format!("the event type is {} bytes long, at most {TYPE_BYTES_MAX} are taken", text.len());
        return Err(Failure::of(Reason::BadType, message));
    }
    if text.contains('\0') {
        return Err(Failure::of(Reason::BadType, "the event type holds a NUL"));
    }
    Ok(text.clone())
}

struct Input<'a> {
    document: &'a Document<'a>,
    event_type: &'a str,
    message: &'a Message,
    source: &'a Source,
}

/// Digest of what a change is made from beside the body: its rules' name, the event type, and whatever the rules read
/// outside the body. Equal bytes may come under other headers, and mean something else.
fn context(projection: &Projection, input: &Input<'_>) -> Digest {
    let outside = projection.places().filter(|place| place.is_outside_body());
    let values: Vec<_> = outside.map(|place| place.find(input.document)).collect();
    let context = (&input.source.name, &projection.name, input.event_type, values);
    // Neither names nor values can fail to be written.
    Digest::of(&serde_json::to_vec(&context).unwrap_or_default())
}

fn change(projection: &Projection, effect: Effect, input: &Input<'_>) -> Result<Change, Failure> {
    let key = entity_key(&projection.key, input.document)?;
    let deletes = effect == Effect::Delete;
    let own_version = deletes && !projection.delete_version.is_empty();
    let rules = if own_version { &projection.delete_version } else { &projection.version };
    let version = version::read(rules, input.document, input.message.received_at)?;
    let order_key = OrderKey::encode(&OrderKeyParts {
        epoch: projection.epoch,
        terminal: 0,
        version: &version.ordered,
        deleted: deletes,
        rank: rank(&projection.rank, input),
        digest: input.message.digest,
        context: context(projection, input),
    });
    let state = if deletes { None } else { Some(state(&projection.state, input.document)?) };
    Ok(Change::of(projection.entity.clone(), key, version.shown, order_key, state))
}

fn entity_key(places: &[Locator], document: &Document<'_>) -> Result<String, Failure> {
    let mut parts = vec![];
    for place in places {
        let bad = |what: &str| Failure::of(Reason::BadKey, format!("the entity key at {place} {what}"));
        parts.push(match place.find(document).as_deref() {
            None if place.is_optional() => continue,
            None | Some(Value::Null) => {
                return Err(Failure::of(Reason::MissingKey, format!("there is no entity key at {place}")));
            }
            Some(Value::String(text)) if text.is_empty() => {
                return Err(Failure::of(Reason::MissingKey, format!("the entity key at {place} is empty")));
            }
            Some(Value::String(text)) => text.clone(),
            Some(Value::Bool(flag)) => flag.to_string(),
            Some(Value::Number(number)) => {
                json::canonical_number(&number.to_string()).map(|n| n.to_string()).map_err(|e| bad(&e.to_string()))?
            }
            Some(Value::Array(_) | Value::Object(_)) => return Err(bad("is an object or array")),
        });
    }
    if parts.is_empty() {
        return Err(Failure::of(Reason::MissingKey, format!("there is no entity key at {}", named(places))));
    }
    let key = join(places, parts);
    if key.len() > KEY_BYTES_MAX {
        let message = format!("the entity key is {} bytes long, at most {KEY_BYTES_MAX} are taken", key.len());
        return Err(Failure::of(Reason::BadKey, message));
    }
    if key.contains('\0') {
        return Err(Failure::of(Reason::BadKey, "the entity key holds a NUL"));
    }
    Ok(key)
}

/// The part of a rule of one part as it is; those of several joined with `:`, with `:` and `\` inside parts escaped, so
/// that no two lists of parts give one text. Where a part may be absent, it is left out with its `:`.
fn join(places: &[Locator], mut parts: Vec<String>) -> String {
    if places.len() == 1 {
        return parts.remove(0);
    }
    let escaped = parts.iter().map(|part| part.replace('\\', "\\\\").replace(':', "\\:"));
    escaped.collect::<Vec<_>>().join(":")
}

fn rank(rule: &RankRule, input: &Input<'_>) -> u32 {
    let position = match rule {
        RankRule::None => None,
        RankRule::Types(types) => types.iter().rposition(|g| g.matches(input.event_type)),
        RankRule::Value { at, order } => at.find(input.document).and_then(|value| {
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            order.iter().position(|o| *o == text)
        }),
    };
    position.map_or(0, |at| u32::try_from(at + 1).unwrap_or(u32::MAX))
}

fn state(rule: &StateRule, document: &Document<'_>) -> Result<String, Failure> {
    let too_long = |e: crate::number::NumberError| Failure::of(Reason::BadNumber, format!("a number of the state {e}"));
    let value = match rule {
        StateRule::Whole => json::canonicalize(document.json.unwrap_or(&Value::Null)).map_err(too_long)?,
        StateRule::Fields(fields) => {
            let members = fields.iter().map(|field| Ok((field.name.clone(), field_value(field, document)?)));
            Value::Object(members.collect::<Result<Map<_, _>, Failure>>()?)
        }
    };
    Ok(value.to_string())
}

fn field_value(field: &FieldRule, document: &Document<'_>) -> Result<Value, Failure> {
    let Some(value) = field.at.find(document).filter(|v| !v.is_null()) else { return Ok(Value::Null) };
    let bad_number = |e: crate::number::NumberError| {
        Failure::of(Reason::BadNumber, format!("field `{}` at {} {e}", field.name, field.at))
    };
    let unknown =
        || Failure::of(Reason::UnknownValue, format!("field `{}` at {} is not of its type", field.name, field.at));
    match (field.kind, value.as_ref()) {
        (None, value) => json::canonicalize(value).map_err(bad_number),
        (Some(FieldKind::Text | FieldKind::Version(VersionKind::Text)), Value::String(text)) => {
            Ok(Value::String(json::without_nul(text)))
        }
        (Some(FieldKind::Text | FieldKind::Version(VersionKind::Text)), Value::Number(number)) => {
            json::canonical_number(&number.to_string()).map(|n| Value::String(n.to_string())).map_err(bad_number)
        }
        (Some(FieldKind::Bool), Value::Bool(flag)) => Ok(Value::Bool(*flag)),
        (Some(FieldKind::Bool), Value::String(text)) => text.parse().map(Value::Bool).map_err(|_| unknown()),
        (Some(FieldKind::Version(kind)), value) => version::field(value, kind).ok_or_else(|| match kind {
            VersionKind::Int | VersionKind::Decimal => Failure::of(
                Reason::BadNumber,
                format!("field `{}` at {} is not a number of its type", field.name, field.at),
            ),
            _ => unknown(),
        }),
        _ => Err(unknown()),
    }
}

#[cfg(test)]
#[path = "prepare_tests.rs"]
mod tests;
