//! Where a value stands: a JSON Pointer (RFC 6901) into the body, a request header, a query parameter, a constant.

use serde_json::Value;
use std::borrow::Cow;
use thiserror::Error;

/// Why a text is not a locator.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum LocatorError {
    /// None of the four forms.
    #[error("`{0}` is none of: a JSON Pointer such as `/data/id`, `header:NAME`, `query:NAME`, `const:TEXT`")]
    Form(String),
    /// `~` in a pointer not followed by 0 or 1 (RFC 6901, section 3).
    #[error("`{0}`: in a JSON Pointer `~` is written `~0`, and `/` inside a name `~1`")]
    Escape(String),
    /// `header:` or `query:` without a name.
    #[error("`{0}` names nothing after the colon")]
    NoName(String),
}

/// A place in a delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Locator {
    /// The member at these unescaped reference tokens of a JSON Pointer; none is the whole document.
    Pointer(Vec<String>),
    /// The first request header of this lower-case name, as text.
    Header(String),
    /// The first query parameter of this name, percent-decoded.
    Query(String),
    /// This text.
    Const(String),
    /// The first of these places where anything stands: the same fact under two names.
    First(Vec<Locator>),
    /// That place, which may be absent where parts are joined: then the part is left out.
    Optional(Box<Locator>),
}

impl Locator {
    /// Reads `/a/b`, an empty text (the whole document), `header:NAME`, `query:NAME` or `const:TEXT`.
    ///
    /// # Errors
    /// When it is none of these, with the mend.
    pub fn parse(text: &str) -> Result<Self, LocatorError> {
        let named = |name: &str| if name.is_empty() { Err(LocatorError::NoName(text.to_owned())) } else { Ok(()) };
        if let Some(name) = text.strip_prefix("header:") {
            return named(name).map(|()| Self::Header(name.to_ascii_lowercase()));
        }
        if let Some(name) = text.strip_prefix("query:") {
            return named(name).map(|()| Self::Query(name.to_owned()));
        }
        if let Some(constant) = text.strip_prefix("const:") {
            return Ok(Self::Const(constant.to_owned()));
        }
        if text.is_empty() {
            return Ok(Self::Pointer(vec![]));
        }
        let Some(pointer) = text.strip_prefix('/') else { return Err(LocatorError::Form(text.to_owned())) };
        let token = |token: &str| {
            let stray = token.split('~').skip(1).any(|rest| !rest.starts_with(['0', '1']));
            if stray { None } else { Some(token.replace("~1", "/").replace("~0", "~")) }
        };
        let tokens: Option<Vec<_>> = pointer.split('/').map(token).collect();
        tokens.map(Self::Pointer).ok_or_else(|| LocatorError::Escape(text.to_owned()))
    }

    /// Whether any of it lies outside the body.
    pub fn is_outside_body(&self) -> bool {
        self.leaves().iter().any(|place| !matches!(place, Self::Pointer(_)))
    }

    /// Whether any of it lies in the body.
    pub fn is_in_body(&self) -> bool {
        self.leaves().iter().any(|place| matches!(place, Self::Pointer(_)))
    }

    /// Whether the part may be absent.
    pub const fn is_optional(&self) -> bool {
        matches!(self, Self::Optional(_))
    }

    /// The places that it is made of: itself, where it is not made of others.
    pub fn leaves(&self) -> Vec<&Self> {
        match self {
            Self::First(places) => places.iter().flat_map(Self::leaves).collect(),
            Self::Optional(place) => place.leaves(),
            place => vec![place],
        }
    }

    /// The value there; nothing where it is absent.
    pub fn find<'a>(&'a self, document: &'a Document<'_>) -> Option<Cow<'a, Value>> {
        match self {
            Self::Pointer(tokens) => tokens.iter().try_fold(document.json?, member).map(Cow::Borrowed),
            Self::Header(name) => document.header(name).map(|text| Cow::Owned(Value::String(text.to_owned()))),
            Self::Query(name) => form_urlencoded::parse(document.query.as_bytes())
                .find(|(key, _)| key == name)
                .map(|(_, value)| Cow::Owned(Value::String(value.into_owned()))),
            Self::Const(text) => Some(Cow::Owned(Value::String(text.clone()))),
            Self::First(places) => places.iter().find_map(|place| place.find(document).filter(|value| stands(value))),
            Self::Optional(place) => place.find(document).filter(|value| stands(value)),
        }
    }
}

/// Whether a value says anything: null and the empty text do not.
fn stands(value: &Value) -> bool {
    !value.is_null() && value.as_str() != Some("")
}

/// One step of RFC 6901, section 4.
fn member<'a>(value: &'a Value, token: &String) -> Option<&'a Value> {
    match value {
        Value::Object(members) => members.get(token),
        Value::Array(items) => items.get(array_index(token)?),
        _ => None,
    }
}

/// The position that a reference token names in an array, if it is one: no sign, no leading zeros.
pub(crate) fn array_index(token: &str) -> Option<usize> {
    let is_index = token == "0" || (!token.starts_with('0') && token.bytes().all(|b| b.is_ascii_digit()));
    if is_index { token.parse().ok() } else { None }
}

impl std::fmt::Display for Locator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Pointer(tokens) => {
                tokens.iter().try_for_each(|t| write!(f, "/{}", t.replace('~', "~0").replace('/', "~1")))
            }
            Self::Header(name) => write!(f, "header:{name}"),
            Self::Query(name) => write!(f, "query:{name}"),
            Self::Const(text) => write!(f, "const:{text}"),
            Self::First(places) => {
                let places: Vec<_> = places.iter().map(Self::to_string).collect();
                write!(f, "first({})", places.join(", "))
            }
            Self::Optional(place) => write!(f, "optional({place})"),
        }
    }
}

/// What locators look into: the parsed body (absent where it does not parse), stored headers, the query string.
#[derive(Clone, Copy, Debug)]
pub struct Document<'a> {
    /// The body, if it is JSON.
    pub json: Option<&'a Value>,
    /// Stored request headers, names in lower case, in order.
    pub headers: &'a [(String, String)],
    /// The raw query string, without `?`.
    pub query: &'a str,
}

impl Document<'_> {
    fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// The examples of RFC 6901, section 5.
    #[test]
    fn pointers_of_the_rfc() {
        let body = json!({"foo": ["bar", "baz"], "": 0, "a/b": 1, "c%d": 2, "e^f": 3, "g|h": 4, "i\\j": 5, "k\"l": 6, " ": 7, "m~n": 8});
        let document = Document { json: Some(&body), headers: &[], query: "" };
        let at = |pointer: &str| Locator::parse(pointer).unwrap().find(&document).map(|v| v.into_owned());
        assert_eq!(at(""), Some(body.clone()));
        assert_eq!(at("/foo"), Some(json!(["bar", "baz"])));
        assert_eq!(at("/foo/0"), Some(json!("bar")));
        for (pointer, expected) in [
            ("/", 0),
            ("/a~1b", 1),
            ("/c%d", 2),
            ("/e^f", 3),
            ("/g|h", 4),
            ("/i\\j", 5),
            ("/k\"l", 6),
            ("/ ", 7),
            ("/m~0n", 8),
        ] {
            assert_eq!(at(pointer), Some(json!(expected)), "{pointer}");
        }
        for absent in ["/foo/2", "/foo/00", "/foo/-", "/foo/bar", "/nope/x", "/foo/0/x"] {
            assert_eq!(at(absent), None, "{absent}");
        }
    }

    #[test]
    fn headers_query_and_constants() {
        let headers = [("x-id".to_owned(), "a".to_owned()), ("x-id".to_owned(), "b".to_owned())];
        let document = Document { json: None, headers: &headers, query: "id=a%20b&id=c&x" };
        let at = |text: &str| Locator::parse(text).unwrap().find(&document).map(|v| v.into_owned());
        assert_eq!(at("header:X-Id"), Some(json!("a")));
        assert_eq!(at("query:id"), Some(json!("a b")));
        assert_eq!(at("query:x"), Some(json!("")));
        assert_eq!(at("const:k"), Some(json!("k")));
        assert_eq!(at("/x"), None);
    }

    #[test]
    fn the_first_place_where_anything_stands_counts() {
        let body = json!({"null": null, "empty": "", "zero": 0, "text": "t"});
        let document = Document { json: Some(&body), headers: &[], query: "" };
        let at = |texts: &[&str]| {
            let first = Locator::First(texts.iter().map(|text| Locator::parse(text).unwrap()).collect());
            first.find(&document).map(|v| v.into_owned())
        };
        assert_eq!(at(&["/nope", "header:x", "/null", "/empty", "/text", "/zero"]), Some(json!("t")));
        assert_eq!(at(&["/zero", "/text"]), Some(json!(0)));
        assert_eq!(at(&["/null", "/empty"]), None);
        let mixed = Locator::First(vec![Locator::parse("/a").unwrap(), Locator::parse("header:a").unwrap()]);
        assert!(mixed.is_in_body() && mixed.is_outside_body());
        assert_eq!(Locator::Optional(Box::new(mixed)).to_string(), "optional(first(/a, header:a))");
    }

    #[test]
    fn other_texts_are_refused() {
        for text in ["id", "header:", "query:", "/a~2", "/a~", "body:/x"] {
            assert!(Locator::parse(text).is_err(), "{text}");
        }
    }
}
