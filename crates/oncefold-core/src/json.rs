//! JSON as we take it: bounded depth, exact numbers, one canonical text for states in both dialects.

use crate::limits::JSON_DEPTH_MAX;
use crate::number::{Decimal, NumberError};
use serde::Deserialize as _;
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::collections::HashMap;
use thiserror::Error;

/// Why bytes are not a JSON document we take.
#[derive(Debug, Error)]
pub enum JsonError {
    /// Nested deeper than [`JSON_DEPTH_MAX`].
    #[error("the body nests deeper than {JSON_DEPTH_MAX} levels")]
    TooDeep,
    /// Not JSON (RFC 8259) in UTF-8; the place, never the content.
    #[error("the body is not JSON: line {line}, column {column}")]
    Syntax {
        /// Line of the fault, from 1.
        line: usize,
        /// Column of the fault.
        column: usize,
    },
    /// A member has a name that not every reader of JSON takes for a name; see [`private_name`].
    #[error("the body has a member whose name begins with {PRIVATE_NAME}: line {line}, column {column}")]
    PrivateName {
        /// Line of the name, from 1.
        line: usize,
        /// Column of the name, from 1.
        column: usize,
    },
}

/// How the names begin under which `serde_json` hides exact numbers and raw values in its data model.
pub(crate) const PRIVATE_NAME: &str = "$serde_json::private::";

/// Reads one JSON document from exact bytes. Of repeated member names the last one counts.
///
/// # Errors
/// When the bytes are not one JSON document, nest deeper than the limit, or hold a name of `serde_json`'s own.
pub fn parse(body: &[u8]) -> Result<Value, JsonError> {
    if depth_of(body) > JSON_DEPTH_MAX {
        return Err(JsonError::TooDeep);
    }
    if let Some(at) = private_name(body) {
        let (line, column) = place(&body[..at]);
        return Err(JsonError::PrivateName { line, column });
    }
    let mut reader = serde_json::Deserializer::from_slice(body);
    reader.disable_recursion_limit();
    Value::deserialize(&mut reader)
        .and_then(|value| reader.end().map(|()| value))
        .map_err(|e| JsonError::Syntax { line: e.line(), column: e.column() })
}

/// Where the first member name stands that begins with [`PRIVATE_NAME`], however it is written. A [`Value`] shows under
/// such a name something else than a member, so that a sender could have one reader see what another does not, such as
/// the one that verifies a signature. For bytes that are not JSON the answer means nothing.
fn private_name(body: &[u8]) -> Option<usize> {
    // Searching for a byte spares nearly every body the walk.
    if !body.contains(&b'$') && !body.contains(&b'\\') {
        return None;
    }
    let text = std::str::from_utf8(body).ok()?;
    if !text.contains('$') && !text.contains(r"\u0024") {
        return None;
    }
    let mut rest = text;
    while let Some(start) = rest.find('"') {
        let string = &rest[start..];
        let mut escaped = false;
        let end = string.bytes().skip(1).position(|byte| {
            let ends = byte == b'"' && !escaped;
            escaped = byte == b'\\' && !escaped;
            ends
        });
        let (string, behind) = string.split_at(end? + 2);
        if behind.trim_ascii_start().starts_with(':') && begins_privately(string) {
            return Some(text.len() - behind.len() - string.len());
        }
        rest = behind;
    }
    None
}

/// Whether a string, with its quotes, begins with [`PRIVATE_NAME`].
fn begins_privately(string: &str) -> bool {
    let may = string.starts_with("\"$") || string.starts_with(r#""\u0024"#);
    may && serde_json::from_str::<String>(string).is_ok_and(|name| name.starts_with(PRIVATE_NAME))
}

/// Line and column of what comes after this.
fn place(before: &[u8]) -> (usize, usize) {
    let last_line = before.iter().rposition(|byte| *byte == b'\n').map_or(before, |at| &before[at + 1..]);
    (before.iter().filter(|byte| **byte == b'\n').count() + 1, last_line.len() + 1)
}

/// Reads a state as it was stored: JSON of ours, which may nest one level deeper than a body.
///
/// # Errors
/// When the text is not one JSON document.
pub fn parse_stored(text: &str) -> Result<Value, serde_json::Error> {
    let mut reader = serde_json::Deserializer::from_str(text);
    reader.disable_recursion_limit();
    let value = Value::deserialize(&mut reader)?;
    reader.end().map(|()| value)
}

/// The exact bytes of each element of the array at these reference tokens of a JSON Pointer; nothing where the bytes are
/// not JSON as we take it, or no array stands there. Of repeated member names the last one counts.
pub fn elements<'a>(body: &'a [u8], tokens: &[String]) -> Option<Vec<&'a [u8]>> {
    if depth_of(body) > JSON_DEPTH_MAX || private_name(body).is_some() {
        return None;
    }
    let mut at: &RawValue = serde_json::from_slice(body).ok()?;
    for token in tokens {
        at = match at.get().as_bytes().first()? {
            b'{' => serde_json::from_str::<HashMap<Cow<'_, str>, &RawValue>>(at.get()).ok()?.remove(token.as_str())?,
            b'[' if token == "0" || !token.starts_with('0') => {
                let index = token.parse::<usize>().ok()?;
                *serde_json::from_str::<Vec<&RawValue>>(at.get()).ok()?.get(index)?
            }
            _ => return None,
        };
    }
    let elements: Vec<&RawValue> = serde_json::from_str(at.get()).ok()?;
    Some(elements.into_iter().map(|element| element.get().as_bytes()).collect())
}

/// The deepest nesting of brackets outside strings. For bytes that are not JSON the answer is only a bound.
pub(crate) fn depth_of(body: &[u8]) -> usize {
    let (mut depth, mut deepest, mut in_string, mut escaped) = (0usize, 0usize, false, false);
    for byte in body {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b'[' | b'{' if !in_string => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b']' | b'}' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

/// The document as a state holds it: numbers written out without exponent, U+0000 replaced by U+FFFD (PostgreSQL's
/// json cannot hold it), members in order of their names.
///
/// # Errors
/// When a number is too long when written out.
pub fn canonicalize(value: &Value) -> Result<Value, NumberError> {
    Ok(match value {
        Value::Number(number) => Value::Number(canonical_number(&number.to_string())?),
        Value::String(text) => Value::String(without_nul(text)),
        Value::Array(items) => Value::Array(items.iter().map(canonicalize).collect::<Result<_, _>>()?),
        Value::Object(members) => {
            let members = members.iter().map(|(name, value)| Ok((without_nul(name), canonicalize(value)?)));
            Value::Object(members.collect::<Result<Map<_, _>, NumberError>>()?)
        }
        Value::Null | Value::Bool(_) => value.clone(),
    })
}

/// The number of this text as a JSON number without exponent.
///
/// # Errors
/// When the text is no number or too long.
pub fn canonical_number(text: &str) -> Result<serde_json::Number, NumberError> {
    let canonical = Decimal::parse(text)?.canonical();
    Ok(serde_json::Number::from_string_unchecked(canonical))
}

/// The text with U+FFFD for each U+0000.
pub fn without_nul(text: &str) -> String {
    text.replace('\0', "\u{FFFD}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn canonical(text: &str) -> String {
        canonicalize(&parse(text.as_bytes()).unwrap()).unwrap().to_string()
    }

    #[test]
    fn depth_is_bounded_exactly_and_brackets_in_strings_do_not_count() {
        let nested = |n: usize| "[".repeat(n) + &"]".repeat(n);
        assert!(parse(nested(JSON_DEPTH_MAX).as_bytes()).is_ok());
        assert!(matches!(parse(nested(JSON_DEPTH_MAX + 1).as_bytes()), Err(JsonError::TooDeep)));
        assert!(parse(format!("[\"{}\\\"{}\"]", "[".repeat(200), "{".repeat(200)).as_bytes()).is_ok());
        assert!(parse("[".repeat(1_000_000).as_bytes()).is_err());
    }

    #[test]
    fn a_stored_state_may_be_a_body_within_a_field() {
        let text = format!("{{\"field\":{}{}}}", "[".repeat(JSON_DEPTH_MAX), "]".repeat(JSON_DEPTH_MAX));
        assert_eq!(parse_stored(&text).unwrap().to_string(), text);
    }

    #[test]
    fn what_is_not_one_utf8_document_is_refused() {
        for body in [&b""[..], b" ", b"{}{}", b"\xEF\xBB\xBF{}", b"[\"\xFF\"]", b"{\"a\":1,}", b"nul", b"[\"\\ud800\"]"]
        {
            assert!(matches!(parse(body), Err(JsonError::Syntax { .. })), "{body:?}");
        }
    }

    /// Such a name makes a [`Value`] show another value than the member's, or none.
    #[test]
    fn names_of_the_readers_own_are_refused_however_they_are_written() {
        let names = [
            "$serde_json::private::Number",
            "$serde_json::private::RawValue",
            "$serde_json::private::Anything",
            r"\u0024serde_json::private::RawValue",
            r"$serde_\u006ason::private::Number",
            r"\u0024\u0073erde_json\u003a:private::RawValue",
        ];
        for name in names {
            for body in [
                format!(r#"{{"{name}":"1"}}"#),
                format!(r#"{{"{name}" : "{{}}","a":1}}"#),
                format!("{{\"a\":1,\n \"{name}\"\r\n\t:null}}"),
                format!(r#"{{"a\\":"\"$","b":[1,{{"{name}":"[]"}}]}}"#),
            ] {
                assert!(matches!(parse(body.as_bytes()), Err(JsonError::PrivateName { .. })), "{body}");
                assert_eq!(elements(format!("[{body}]").as_bytes(), &[]), None, "{body}");
            }
            let elsewhere = format!(r#"{{"a":"{name}","b":["{name}",":"],"c\"{name}":1,"serde{name}":2}}"#);
            assert!(parse(elsewhere.as_bytes()).is_ok(), "{elsewhere}");
        }
        let at = parse(b"{\"a\":1,\n  \"$serde_json::private::Number\":\"1\"}");
        assert!(matches!(at, Err(JsonError::PrivateName { line: 2, column: 3 })), "{at:?}");
        for sound in [r#"{"$":1,"$ref":2,"$serde_json":3,"\u0024serde_json::privat":4}"#, r#"{"a":1.50,"b":1e400}"#] {
            assert!(parse(sound.as_bytes()).is_ok(), "{sound}");
        }
    }

    #[test]
    fn elements_are_exact_bytes() {
        let at = |body: &'static str, pointer: &str| {
            let tokens: Vec<_> = pointer.split('/').skip(1).map(str::to_owned).collect();
            let found = elements(body.as_bytes(), &tokens)?;
            Some(found.into_iter().map(|bytes| std::str::from_utf8(bytes).unwrap()).collect::<Vec<_>>())
        };
        let body = r#" {"n":[9], "a\u0062": {"list" : [ {"x": 1.0 , "y":"\u0041"},  2e0 ,"]" ] }, "n":[10, 11]} "#;
        assert_eq!(at(body, "/ab/list"), Some(vec![r#"{"x": 1.0 , "y":"\u0041"}"#, "2e0", "\"]\""]));
        assert_eq!(at(body, "/n"), Some(vec!["10", "11"]));
        assert_eq!(at("[[1,2],[3]]", "/0"), Some(vec!["1", "2"]));
        assert_eq!(at(" [ ] ", ""), Some(vec![]));
        for (body, pointer) in
            [("{}", ""), (body, "/nope"), (body, "/ab"), ("[[1]]", "/00"), ("[1]", "/1"), ("[1,]", "")]
        {
            assert_eq!(at(body, pointer), None, "{body} {pointer}");
        }
        assert_eq!(elements("[".repeat(1_000_000).as_bytes(), &[]), None);
        assert_eq!(elements(b"[\"\xFF\"]", &[]), None);
    }

    #[test]
    fn states_have_one_text() {
        assert_eq!(canonical(r#"{"b":1e2,"a":9007199254740993,"a":-0.0}"#), r#"{"a":0.0,"b":100}"#);
        assert_eq!(canonical("\"a\\u0000b\""), "\"a\u{FFFD}b\"");
        assert_eq!(canonical("1e400").len(), 401);
    }
}
