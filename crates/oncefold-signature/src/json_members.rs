//! JSON objects whose fields are signed: every name once, values as they are written.

use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use std::collections::HashSet;
use std::fmt;

/// The members of an object, in order, values as their exact text.
pub(crate) struct Members<'a>(Vec<(String, &'a RawValue)>);

impl<'a> Members<'a> {
    /// Nothing where the text is no JSON object, or a name is there twice anywhere in it: parsers differ in which of the
    /// two counts.
    pub(crate) fn parse(json: &'a str) -> Option<Self> {
        serde_json::from_str::<UniqueNames>(json).ok()?;
        Self::parse_top(json)
    }

    /// Likewise, looking at the object's own names only.
    pub(crate) fn parse_top(json: &'a str) -> Option<Self> {
        let mut parser = serde_json::Deserializer::from_str(json);
        let members = parser.deserialize_map(MembersVisitor).ok()?;
        parser.end().ok()?;
        Some(Self(members))
    }

    pub(crate) fn get(&self, name: &str) -> Option<&'a str> {
        self.0.iter().find(|(given, _)| given == name).map(|(_, value)| value.get())
    }

    /// A text member; nothing where it is absent or null.
    ///
    /// # Errors
    /// The name, where the value is something else.
    pub(crate) fn text<'n>(&self, name: &'n str) -> Result<Option<String>, &'n str> {
        match self.get(name) {
            None | Some("null") => Ok(None),
            Some(json) => serde_json::from_str(json).map(Some).map_err(|_| name),
        }
    }
}

struct MembersVisitor;

impl<'de> Visitor<'de> for MembersVisitor {
    type Value = Vec<(String, &'de RawValue)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut members: Self::Value = Vec::new();
        let mut seen = HashSet::new();
        while let Some((name, value)) = map.next_entry::<String, &RawValue>()? {
            if !seen.insert(name.clone()) {
                return Err(A::Error::custom("a name is there twice"));
            }
            members.push((name, value));
        }
        Ok(members)
    }
}

/// Any JSON in which no object has a name twice.
struct UniqueNames;

impl<'de> Deserialize<'de> for UniqueNames {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(UniqueVisitor)
    }
}

struct UniqueVisitor;

impl<'de> Visitor<'de> for UniqueVisitor {
    type Value = UniqueNames;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<UniqueNames, A::Error> {
        let mut seen = HashSet::new();
        while let Some(name) = map.next_key::<String>()? {
            map.next_value::<UniqueNames>()?;
            if !seen.insert(name) {
                return Err(A::Error::custom("a name is there twice"));
            }
        }
        Ok(UniqueNames)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<UniqueNames, A::Error> {
        while seq.next_element::<UniqueNames>()?.is_some() {}
        Ok(UniqueNames)
    }

    fn visit_bool<E>(self, _: bool) -> Result<UniqueNames, E> {
        Ok(UniqueNames)
    }

    fn visit_i64<E>(self, _: i64) -> Result<UniqueNames, E> {
        Ok(UniqueNames)
    }

    fn visit_u64<E>(self, _: u64) -> Result<UniqueNames, E> {
        Ok(UniqueNames)
    }

    fn visit_f64<E>(self, _: f64) -> Result<UniqueNames, E> {
        Ok(UniqueNames)
    }

    fn visit_str<E>(self, _: &str) -> Result<UniqueNames, E> {
        Ok(UniqueNames)
    }

    fn visit_unit<E>(self) -> Result<UniqueNames, E> {
        Ok(UniqueNames)
    }
}

/// The elements of an array, as their exact text; nothing where the text is no array.
pub(crate) fn elements(json: &str) -> Option<Vec<&str>> {
    let raw: Vec<&RawValue> = serde_json::from_str(json).ok()?;
    Some(raw.into_iter().map(RawValue::get).collect())
}

/// The text, where it is JSON at all.
pub(crate) fn json_text(body: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(body).ok()?;
    serde_json::from_str::<IgnoredAny>(text).ok().map(|_| text)
}
