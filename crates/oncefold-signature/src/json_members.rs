//! JSON objects whose fields are signed: every name once, values as they are written. Names that a reader of the whole
//! document takes for something else ([`has_private_name`]) are refused: what is verified is what is read.

use serde::de::{Deserialize, DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;

/// The members of an object, in order, values as their exact text.
pub(crate) struct Members<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'a> Members<'a> {
    /// Nothing where the text is no JSON object, or a name is there twice anywhere in it: parsers differ in which of the
    /// two counts. Nor where they differ in whether it is a name.
    pub(crate) fn parse(json: &'a str) -> Option<Self> {
        Self::parse_with(json, "").map(|(members, _)| members)
    }

    /// Likewise, with the members of the object under one of its names; nothing for those where it is no object.
    pub(crate) fn parse_with(json: &'a str, inner: &str) -> Option<(Self, Option<Self>)> {
        let members = Self::parse_top(json)?;
        let mut found = None;
        for (name, value) in &members.0 {
            let value = value.get();
            if value.starts_with('{') && !inner.is_empty() && name == inner {
                found = Some(Self::parse(value)?);
            } else if value.starts_with(['{', '[']) {
                serde_json::from_str::<UniqueNames>(value).ok()?;
            }
        }
        Some((members, found))
    }

    /// Likewise, looking at the object's own names only.
    pub(crate) fn parse_top(json: &'a str) -> Option<Self> {
        serde_json::from_str(json).ok().filter(|_| !has_private_name(json))
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

/// As [`Members::parse_top`].
impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(MembersVisitor).map(Self)
    }
}

/// A member's name, borrowed where nothing in it is escaped.
struct Name<'a>(Cow<'a, str>);

impl<'de> Deserialize<'de> for Name<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(NameVisitor).map(Self)
    }
}

struct NameVisitor;

impl<'de> Visitor<'de> for NameVisitor {
    type Value = Cow<'de, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_borrowed_str<E>(self, name: &'de str) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(name))
    }

    fn visit_str<E>(self, name: &str) -> Result<Self::Value, E> {
        Ok(Cow::Owned(name.to_owned()))
    }
}

/// Names of one object. Few are compared one by one, which is faster than to hash them; a hostile body has many.
#[derive(Default)]
struct Names<'a> {
    few: Vec<Cow<'a, str>>,
    many: HashSet<Cow<'a, str>>,
}

impl<'a> Names<'a> {
    const FEW: usize = 24;

    fn add<E: Error>(&mut self, name: Cow<'a, str>) -> Result<(), E> {
        let is_known = self.few.contains(&name) || self.many.contains(&name);
        if is_known {
            return Err(E::custom("a name is there twice"));
        }
        if self.few.len() < Self::FEW {
            self.few.push(name);
        } else {
            self.many.insert(name);
        }
        Ok(())
    }
}

struct MembersVisitor;

impl<'de> Visitor<'de> for MembersVisitor {
    type Value = Vec<(Cow<'de, str>, &'de RawValue)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut members: Self::Value = Vec::new();
        let mut seen = Names::default();
        while let Some(Name(name)) = map.next_key()? {
            seen.add(name.clone())?;
            members.push((name, map.next_value()?));
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
        let mut seen = Names::default();
        while let Some(Name(name)) = map.next_key()? {
            map.next_value::<UniqueNames>()?;
            seen.add(name)?;
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

/// The members of every object in an array, own names once; nothing where there is anything else.
pub(crate) fn objects(json: &str) -> Option<Vec<Members<'_>>> {
    serde_json::from_str(json).ok()
}

/// How the names begin under which `serde_json` hides exact numbers and raw values in its data model: to its readers of
/// whole documents an object with such a member is another value.
const PRIVATE_NAME: &str = "$serde_json::private::";

/// Whether a member anywhere has a name that begins with [`PRIVATE_NAME`], however it is written. For a text that is not
/// JSON the answer means nothing.
fn has_private_name(json: &str) -> bool {
    if !json.contains('$') && !json.contains(r"\u0024") {
        return false;
    }
    let mut rest = json;
    while let Some(start) = rest.find('"') {
        let string = &rest[start..];
        let mut escaped = false;
        let end = string.bytes().skip(1).position(|byte| {
            let ends = byte == b'"' && !escaped;
            escaped = byte == b'\\' && !escaped;
            ends
        });
        let Some(end) = end else { return false };
        let (string, behind) = string.split_at(end + 2);
        if behind.trim_ascii_start().starts_with(':') && begins_privately(string) {
            return true;
        }
        rest = behind;
    }
    false
}

/// Whether a string, with its quotes, begins with [`PRIVATE_NAME`].
fn begins_privately(string: &str) -> bool {
    let may = string.starts_with("\"$") || string.starts_with(r#""\u0024"#);
    may && serde_json::from_str::<String>(string).is_ok_and(|name| name.starts_with(PRIVATE_NAME))
}

/// The text, where it is JSON at all.
pub(crate) fn json_text(body: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(body).ok()?;
    serde_json::from_str::<IgnoredAny>(text).ok().map(|_| text)
}

/// The value at a JSON Pointer (RFC 6901) as its exact text; of equal names the last counts, as it does where JSON is
/// read as a whole. Nothing else of the document is kept.
pub(crate) fn value_at<'a>(body: &'a [u8], pointer: &str) -> Option<&'a str> {
    let mut json = std::str::from_utf8(body).ok().filter(|text| !has_private_name(text))?;
    let tokens = pointer.strip_prefix('/').map_or_else(Vec::new, |rest| rest.split('/').collect());
    if tokens.is_empty() {
        return pointer.is_empty().then(|| json_text(body)).flatten();
    }
    for token in tokens {
        let token = token.replace("~1", "/").replace("~0", "~");
        let mut parser = serde_json::Deserializer::from_str(json);
        let found = Step(&token).deserialize(&mut parser).ok()?;
        parser.end().ok()?;
        json = found?.get();
    }
    Some(json)
}

/// One token of a pointer: a name of an object, or an index of an array.
struct Step<'t>(&'t str);

impl<'de> DeserializeSeed<'de> for Step<'_> {
    type Value = Option<&'de RawValue>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Step<'_> {
    type Value = Option<&'de RawValue>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object or an array")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut found = None;
        while let Some(Name(name)) = map.next_key()? {
            if name == self.0 {
                found = Some(map.next_value()?);
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(found)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let plain = self.0 == "0" || !self.0.starts_with(['0', '+']);
        let at: Option<usize> = plain.then(|| self.0.parse().ok()).flatten();
        let mut found = None;
        let mut index = 0;
        while let Some(value) = seq.next_element::<&RawValue>()? {
            if at == Some(index) {
                found = Some(value);
            }
            index += 1;
        }
        Ok(found)
    }
}

#[cfg(test)]
#[path = "json_members_tests.rs"]
mod tests;
