//! What is kept of a request beside its body: headers and query string, bounded, secrets left out.

use crate::settings::IntakeSource;
use http::HeaderMap;
use oncefold_core::limits::{CONTENT_TYPE_BYTES_MAX, STORED_HEADERS_BYTES_MAX, STORED_QUERY_BYTES_MAX};
use oncefold_core::locator::Locator;
use oncefold_core::model::Source;
use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use std::collections::HashSet;

/// Stands where a secret stood.
const REDACTED: &str = "[redacted]";
/// Headers that carry credentials whatever the source.
const ALWAYS_REDACTED: [&str; 3] = ["authorization", "proxy-authorization", "cookie"];

/// The rules of one source for what is kept.
pub(crate) struct Recorder {
    /// Headers and query parameters that the source's rules read: kept first when not all fit.
    needed_headers: HashSet<String>,
    needed_parameters: HashSet<String>,
    /// Few: looked through faster than hashed.
    secret_headers: Vec<String>,
    secret_parameters: HashSet<String>,
}

/// What is kept of one request.
pub(crate) struct Recorded {
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) query: String,
    pub(crate) content_type: Option<String>,
}

impl Recorder {
    pub(crate) fn of(source: &IntakeSource) -> Self {
        let redacted = source.redact_headers.iter().map(|name| name.to_ascii_lowercase());
        let secret_headers = redacted.chain(ALWAYS_REDACTED.map(str::to_owned)).collect();
        let (mut needed_headers, mut needed_parameters) = (HashSet::new(), HashSet::new());
        for place in places(&source.model) {
            match place {
                Locator::Header(name) => drop(needed_headers.insert(name.clone())),
                Locator::Query(name) => drop(needed_parameters.insert(name.clone())),
                Locator::Pointer(_) | Locator::Const(_) | Locator::First(_) | Locator::Optional(_) => {}
            }
        }
        let secret_parameters = source.redact_query.iter().cloned().collect();
        Self { needed_headers, needed_parameters, secret_headers, secret_parameters }
    }

    /// `path_token` is what stood in the path: a proxy may have copied the path into a header, as it came or decoded.
    /// A header that a rule reads is kept: what it is there for is known, and it decides id, type or version.
    pub(crate) fn record(&self, headers: &HeaderMap, query: &str, path_token: Option<&str>) -> Recorded {
        let (query, secrets) = self.query(query);
        let decode = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
        let encode = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
        let mut secrets: Vec<String> = secrets.into_iter().flat_map(|s| [s.to_owned(), decode(s)]).collect();
        secrets.extend(path_token.into_iter().flat_map(|s| [s.to_owned(), encode(s)]));
        let content_type = headers.get(http::header::CONTENT_TYPE);
        let content_type = content_type.map(|value| cut(&String::from_utf8_lossy(value.as_bytes())));
        Recorded { headers: self.headers(headers, &secrets), query, content_type }
    }

    fn headers(&self, headers: &HeaderMap, secrets: &[String]) -> Vec<(String, String)> {
        let all = headers.iter().map(|(name, value)| {
            let text = String::from_utf8_lossy(value.as_bytes());
            let copied = || {
                secrets.iter().any(|secret| text.contains(secret.as_str()))
                    && !self.needed_headers.contains(name.as_str())
            };
            let secret = self.secret_headers.iter().any(|secret| secret == name.as_str()) || copied();
            (name.as_str().to_owned(), if secret { REDACTED.to_owned() } else { text.into_owned() })
        });
        let needed = |header: &(String, String)| self.needed_headers.contains(&header.0);
        fitting(all.collect(), STORED_HEADERS_BYTES_MAX, needed, |(name, value)| name.len() + value.len())
    }

    /// The query string as it is kept, and the secrets that stood in it.
    fn query<'a>(&self, query: &'a str) -> (String, Vec<&'a str>) {
        let mut secrets = vec![];
        let mut pairs = vec![];
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let name = form_urlencoded::parse(pair.as_bytes()).next().map(|(name, _)| name.into_owned());
            let name = name.unwrap_or_default();
            if self.secret_parameters.contains(&name) {
                let (raw_name, value) = pair.split_once('=').unwrap_or((pair, ""));
                secrets.extend((!value.is_empty()).then_some(value));
                pairs.push((name, format!("{raw_name}={REDACTED}")));
            } else {
                pairs.push((name, pair.to_owned()));
            }
        }
        let needed = |pair: &(String, String)| self.needed_parameters.contains(&pair.0);
        let kept = fitting(pairs, STORED_QUERY_BYTES_MAX, needed, |(_, text)| text.len() + 1);
        (kept.into_iter().map(|(_, text)| text).collect::<Vec<_>>().join("&"), secrets)
    }
}

/// The items that fit into `most` bytes, in their order, those that are needed taken first.
fn fitting<T>(items: Vec<T>, most: usize, needed: impl Fn(&T) -> bool, size: impl Fn(&T) -> usize) -> Vec<T> {
    if items.iter().map(&size).sum::<usize>() <= most {
        return items;
    }
    let mut left = most;
    let mut kept = vec![false; items.len()];
    for wanted in [true, false] {
        for (item, kept) in items.iter().zip(&mut kept).filter(|(item, _)| needed(item) == wanted) {
            if size(item) <= left {
                left -= size(item);
                *kept = true;
            }
        }
    }
    items.into_iter().zip(kept).filter_map(|(item, kept)| kept.then_some(item)).collect()
}

fn cut(text: &str) -> String {
    text[..text.floor_char_boundary(CONTENT_TYPE_BYTES_MAX)].to_owned()
}

/// Whether the body has to be parsed to tell an event's id and type.
pub(crate) fn identity_reads_body(source: &Source) -> bool {
    identity_places(source).into_iter().any(Locator::is_in_body)
}

fn identity_places(source: &Source) -> Vec<&Locator> {
    [source.id.places(), source.event_type.leaves()].concat()
}

/// Every place that the source's rules read.
fn places(source: &Source) -> Vec<&Locator> {
    let projections = source.projections.iter().flat_map(|projection| projection.places());
    identity_places(source).into_iter().chain(projections).collect()
}

#[cfg(test)]
#[path = "recorder_tests.rs"]
mod tests;
