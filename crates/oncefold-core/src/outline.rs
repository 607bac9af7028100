//! Reading only those parts of a JSON body that rules look at. Everything else is checked and passed over, so that what
//! is found at the places, and what is refused, is the same as in the whole document.

use crate::json::{self, JsonError, PRIVATE_NAME};
use crate::limits::JSON_DEPTH_MAX;
use crate::locator::{Locator, array_index};
use serde::Deserialize as _;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};
use std::fmt;

/// The parts of documents that are read: a tree of reference tokens of JSON Pointers (RFC 6901).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outline {
    /// What stands here is read whole.
    is_whole: bool,
    members: Vec<Member>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Member {
    name: String,
    /// The name as a position, where it can be one.
    index: Option<usize>,
    outline: Outline,
}

impl Outline {
    /// Every document, whole.
    pub const fn whole() -> Self {
        Self { is_whole: true, members: vec![] }
    }

    /// What `places` need of a body.
    pub fn of<'a>(places: impl IntoIterator<Item = &'a Locator>) -> Self {
        let mut outline = Self::default();
        for place in places.into_iter().flat_map(Locator::leaves) {
            match place {
                Locator::Pointer(tokens) if tokens.iter().any(|token| token.starts_with(PRIVATE_NAME)) => {
                    return Self::whole();
                }
                Locator::Pointer(tokens) => outline.add(tokens),
                _ => {}
            }
        }
        outline
    }

    /// Reads the parts of one JSON document. [`Locator::find`] finds at the outline's places what it finds after
    /// [`json::parse`]; elsewhere there is nothing, or null.
    ///
    /// # Errors
    /// As [`json::parse`].
    pub fn read(&self, body: &[u8]) -> Result<Value, JsonError> {
        let parts = if self.is_whole { None } else { plain_text(body).and_then(|text| self.parts(text)) };
        // What is out of the ordinary, and every fault, is for the reader that says what is wrong, and where.
        parts.map_or_else(|| json::parse(body), Ok)
    }

    fn parts(&self, text: &str) -> Option<Value> {
        let mut reader = serde_json::Deserializer::from_str(text);
        reader.disable_recursion_limit();
        let value = self.deserialize(&mut reader).ok()?;
        reader.end().ok().map(|()| value)
    }

    fn add(&mut self, tokens: &[String]) {
        let Some((name, rest)) = tokens.split_first() else {
            self.is_whole = true;
            return;
        };
        let at = self.members.iter().position(|member| member.name == *name).unwrap_or_else(|| {
            self.members.push(Member { name: name.clone(), index: array_index(name), outline: Self::default() });
            self.members.len() - 1
        });
        self.members[at].outline.add(rest);
    }
}

/// The body, where passing over a part of it refuses what reading it would refuse, and means the same. Not so where it
/// may nest too deep, holds escapes of surrogates (which come in pairs or not at all), or may hold a name that begins
/// with [`PRIVATE_NAME`].
fn plain_text(body: &[u8]) -> Option<&str> {
    // Each search for a byte alone spares nearly every body the longer one.
    if brackets(body) > JSON_DEPTH_MAX && json::depth_of(body) > JSON_DEPTH_MAX {
        return None;
    }
    let text = std::str::from_utf8(body).ok()?;
    if body.contains(&b'$') && text.contains(PRIVATE_NAME) {
        return None;
    }
    let is_plain = !body.contains(&b'\\') || text.match_indices("\\u").all(|(at, _)| is_plain_escape(text, at));
    is_plain.then_some(text)
}

/// How many brackets open anywhere in the body: it nests no deeper. In pieces whose count is a byte: so it is done for
/// many bytes at once.
fn brackets(body: &[u8]) -> usize {
    let opening = |piece: &[u8]| piece.iter().map(|byte| u8::from(matches!(byte, b'[' | b'{'))).sum::<u8>();
    body.chunks(u8::MAX.into()).map(|piece| usize::from(opening(piece))).sum()
}

/// Whether the `\u` at this place can neither be half of a pair nor a character of [`PRIVATE_NAME`].
fn is_plain_escape(text: &str, at: usize) -> bool {
    let code = text.get(at + 2..at + 6).and_then(|digits| u32::from_str_radix(digits, 16).ok());
    match code.map(char::from_u32) {
        Some(Some(character)) => !PRIVATE_NAME.contains(character),
        Some(None) | None => false,
    }
}

impl<'de> DeserializeSeed<'de> for &Outline {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        if self.is_whole {
            return Value::deserialize(deserializer);
        }
        if self.members.is_empty() {
            return IgnoredAny::deserialize(deserializer).map(|_| Value::Null);
        }
        deserializer.deserialize_any(self)
    }
}

/// A value of which members are wanted. Where it has none, null stands for it.
impl<'de> Visitor<'de> for &Outline {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }

    /// Of repeated names the last one counts. A number comes here too, under a name that is no member's.
    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut found = Map::new();
        while let Some(member) = entries.next_key_seed(NameAmong(&self.members))? {
            match member {
                Some(member) => drop(found.insert(member.name.clone(), entries.next_value_seed(&member.outline)?)),
                None => drop(entries.next_value::<IgnoredAny>()?),
            }
        }
        Ok(Value::Object(found))
    }

    /// Null stands for elements that nothing wants and that are followed by one that something wants.
    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Value, A::Error> {
        let mut found = vec![];
        let mut position = 0;
        let nothing = Outline::default();
        let last = self.members.iter().filter_map(|member| member.index).max();
        loop {
            let wanted = self.members.iter().find(|member| member.index == Some(position));
            let element = elements.next_element_seed(wanted.map_or(&nothing, |member| &member.outline))?;
            let Some(element) = element else { return Ok(Value::Array(found)) };
            if last.is_some_and(|last| position <= last) {
                found.push(element);
            }
            position += 1;
        }
    }

    fn visit_bool<E>(self, _: bool) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_str<E>(self, _: &str) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }
}

/// Reads a name: the member that it is of, if any.
struct NameAmong<'a>(&'a [Member]);

impl<'de, 'a> DeserializeSeed<'de> for NameAmong<'a> {
    type Value = Option<&'a Member>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'a> Visitor<'_> for NameAmong<'a> {
    type Value = Option<&'a Member>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_str<E>(self, name: &str) -> Result<Self::Value, E> {
        Ok(self.0.iter().find(|member| member.name == name))
    }
}

#[cfg(test)]
#[path = "outline_tests.rs"]
mod tests;
