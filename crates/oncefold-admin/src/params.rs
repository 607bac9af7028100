//! The query string, read strictly: a parameter that is misspelt, doubled or out of bounds is a 400 that names it,
//! never a filter that silently does not filter.

use crate::problem::{Problem, excerpt};
use axum::extract::FromRequestParts;
use http::request::Parts;
use oncefold_core::limits::{EVENT_ID_BYTES_MAX, KEY_BYTES_MAX, PAGE_DEFAULT, PAGE_MAX, TYPE_BYTES_MAX};
use oncefold_core::store::EventFilter;
use oncefold_core::{EntityKind, EventStatus, Reason, SourceName, Timestamp};
use percent_encoding::percent_decode_str;
use std::convert::Infallible;

/// A variant's id has `~` and the hex of its digest behind the event id.
const STORED_EVENT_ID_BYTES_MAX: usize = EVENT_ID_BYTES_MAX + 65;
const TIME: &str = "RFC 3339 (with `+` written as %2B) or whole Unix seconds";

/// The parameters that were sent and not yet taken.
pub struct Params(Result<Vec<(String, String)>, Problem>);

impl<S: Sync> FromRequestParts<S> for Params {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(Self(read(parts.uri.query().unwrap_or_default())))
    }
}

impl Params {
    /// Takes parameters with `take`; what is left then is unknown.
    ///
    /// # Errors
    /// A 400 that names the first bad one.
    pub fn all_of<T>(self, take: impl FnOnce(&mut Taker) -> Result<T, Problem>) -> Result<T, Problem> {
        let mut taker = Taker { sent: self.0?, known: Vec::new() };
        let taken = take(&mut taker)?;
        match taker.sent.first() {
            None => Ok(taken),
            Some((name, _)) => {
                let known = if taker.known.is_empty() { "none".to_owned() } else { taker.known.join(", ") };
                let detail = format!("there is no parameter `{}`; known: {known}", excerpt(name));
                Err(Problem::bad_parameter(name, detail))
            }
        }
    }
}

/// Gives parameters out by name.
pub struct Taker {
    sent: Vec<(String, String)>,
    known: Vec<&'static str>,
}

impl Taker {
    /// The value of `name` as `parse` reads it; `expected` says what it should be.
    pub fn parsed<T>(
        &mut self,
        name: &'static str,
        expected: &str,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Result<Option<T>, Problem> {
        self.known.push(name);
        let Some(position) = self.sent.iter().position(|(sent, _)| sent == name) else { return Ok(None) };
        let (_, value) = self.sent.swap_remove(position);
        if self.sent.iter().any(|(sent, _)| sent == name) {
            return Err(Problem::bad_parameter(name, format!("`{name}` was given twice")));
        }
        let bad = || Problem::bad_parameter(name, format!("`{name}` is `{}`; expected {expected}", excerpt(&value)));
        parse(&value).map(Some).ok_or_else(bad)
    }

    fn text(&mut self, name: &'static str, bytes_max: usize) -> Result<Option<String>, Problem> {
        let expected = format!("1 to {bytes_max} bytes of text without NUL");
        self.parsed(name, &expected, |text| {
            ((1..=bytes_max).contains(&text.len()) && !text.contains('\0')).then(|| text.to_owned())
        })
    }

    /// `limit`, 1 to 500.
    pub fn limit(&mut self) -> Result<u32, Problem> {
        let expected = format!("a whole number from 1 to {PAGE_MAX}");
        let limit = self.parsed("limit", &expected, |text| {
            let digits = text.bytes().all(|b| b.is_ascii_digit());
            text.parse().ok().filter(|limit| digits && (1..=PAGE_MAX).contains(limit))
        })?;
        Ok(limit.unwrap_or(PAGE_DEFAULT))
    }

    /// `cursor`, as an earlier page gave it.
    pub fn cursor<T>(&mut self, parse: impl FnOnce(&str) -> Option<T>) -> Result<Option<T>, Problem> {
        self.parsed("cursor", "`next_cursor` of an earlier page, unchanged", parse)
    }

    /// `entity`.
    pub fn entity(&mut self) -> Result<Option<String>, Problem> {
        self.parsed("entity", "an entity kind, [a-z][a-z0-9_]{0,62}", |text| {
            EntityKind::parse(text).ok().map(|kind| kind.as_str().to_owned())
        })
    }

    /// `key_prefix`; an empty one is the prefix of every key.
    pub fn key_prefix(&mut self) -> Result<Option<String>, Problem> {
        let expected = format!("up to {KEY_BYTES_MAX} bytes of text without NUL");
        self.parsed("key_prefix", &expected, |text| {
            (text.len() <= KEY_BYTES_MAX && !text.contains('\0')).then(|| text.to_owned())
        })
    }

    /// `true` or `false`.
    pub fn flag(&mut self, name: &'static str) -> Result<Option<bool>, Problem> {
        self.parsed(name, "true or false", |text| text.parse().ok())
    }

    /// `source`.
    pub fn source(&mut self) -> Result<Option<String>, Problem> {
        self.parsed("source", "a source name, [a-z0-9_-]{1,64}", |text| {
            SourceName::parse(text).ok().map(|name| name.as_str().to_owned())
        })
    }

    /// The filters that events and dead letters share: `source`, `type`, `since`, `until`, `limit`, `cursor`.
    pub fn common_event_filter(&mut self) -> Result<EventFilter, Problem> {
        Ok(EventFilter {
            source: self.source()?,
            event_type: self.text("type", TYPE_BYTES_MAX)?,
            since: self.parsed("since", TIME, Timestamp::parse)?,
            until: self.parsed("until", TIME, Timestamp::parse)?,
            limit: self.limit()?,
            before: self.cursor(crate::present::parse_event_cursor)?,
            ..EventFilter::default()
        })
    }

    /// Every filter of events.
    pub fn event_filter(&mut self) -> Result<EventFilter, Problem> {
        let statuses = EventStatus::ALL.map(EventStatus::as_str).join(", ");
        Ok(EventFilter {
            status: self.parsed("status", &format!("one of {statuses}"), EventStatus::parse)?,
            entity: self.entity()?,
            key: self.text("key", KEY_BYTES_MAX)?,
            event_id: self.text("event_id", STORED_EVENT_ID_BYTES_MAX)?,
            ..self.common_event_filter()?
        })
    }

    /// Every filter of dead letters.
    pub fn dead_letter_filter(&mut self) -> Result<EventFilter, Problem> {
        let reason = self.parsed("reason", "a failure reason such as mapping.missing_id", |text| {
            Reason::parse(text).map(|reason| reason.as_str().to_owned())
        })?;
        Ok(EventFilter { reason, status: Some(EventStatus::Dead), ..self.common_event_filter()? })
    }
}

/// Splits `application/x-www-form-urlencoded` (WHATWG URL, section 5.1), refusing what is not UTF-8: a lossy reading
/// would look for another key.
fn read(query: &str) -> Result<Vec<(String, String)>, Problem> {
    let decoded = |text: &str| percent_decode_str(&text.replace('+', " ")).decode_utf8().map(String::from).ok();
    query
        .split('&')
        .filter(|pair| !pair.is_empty())
        .map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let bad = || Problem::bad_parameter(name, "the query string is not percent-encoded UTF-8");
            decoded(name).zip(decoded(value)).ok_or_else(bad)
        })
        .collect()
}

/// Cuts the one item off that was asked for beyond the page, and says where the next page starts.
pub fn cut_page<T>(items: &mut Vec<T>, limit: u32, cursor: impl FnOnce(&T) -> String) -> Option<String> {
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let more = items.len() > limit;
    items.truncate(limit);
    items.last().filter(|_| more).map(cursor)
}
