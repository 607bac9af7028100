//! What an HMAC is computed over: a template such as `{timestamp}.{body}`, parsed once.

use crate::request::Request;
use crate::verdict::{Rejection, RejectionReason};
use std::fmt;
use std::str::FromStr;

/// The signed text as a template. Placeholders: `{body}`, `{timestamp}` (the raw text of the signed time),
/// `{method}`, `{url}` (the source's configured public URL), `{header:NAME}`. Everything else stands for itself.
/// Displays as it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignedTemplate {
    text: String,
    parts: Vec<Part>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Literal(String),
    Body,
    Timestamp,
    Method,
    Url,
    Header(String),
}

/// A template that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// A placeholder nobody knows.
    #[error(
        "unknown placeholder {{{0}}} in the signed template; known are {{body}}, {{timestamp}}, {{method}}, {{url}}, {{header:NAME}}"
    )]
    UnknownPlaceholder(String),
    /// `{header:}`.
    #[error("placeholder {{header:}} in the signed template names no header")]
    UnnamedHeader,
    /// A brace without its other.
    #[error("unbalanced brace at byte {0} of the signed template")]
    UnbalancedBrace(usize),
    /// Without the body in it a signature says nothing about the body.
    #[error("the signed template has no {{body}}: the signature would fit any body")]
    NoBody,
}

impl SignedTemplate {
    /// The template `{body}`.
    pub fn body_only() -> Self {
        Self { text: "{body}".to_owned(), parts: vec![Part::Body] }
    }

    pub(crate) fn signs_timestamp(&self) -> bool {
        self.parts.contains(&Part::Timestamp)
    }

    /// Whether the source's public URL is signed, so that it has to be configured.
    pub fn signs_url(&self) -> bool {
        self.parts.contains(&Part::Url)
    }

    /// Hands out the signed text piece by piece; the body is not copied.
    pub(crate) fn feed(
        &self,
        req: &Request<'_>,
        timestamp: &[u8],
        mut sink: impl FnMut(&[u8]),
    ) -> Result<(), Rejection> {
        for part in &self.parts {
            sink(match part {
                Part::Literal(text) => text.as_bytes(),
                Part::Body => req.body,
                Part::Timestamp => timestamp,
                Part::Method => req.method.as_bytes(),
                Part::Url => req.url.ok_or_else(missing_url)?.as_bytes(),
                Part::Header(name) => req.sole_header(name)?,
            });
        }
        Ok(())
    }

    /// The signed text in one piece.
    pub(crate) fn text(&self, req: &Request<'_>, timestamp: &[u8]) -> Result<Vec<u8>, Rejection> {
        let mut text = Vec::with_capacity(req.body.len() + timestamp.len());
        self.feed(req, timestamp, |bytes| text.extend_from_slice(bytes))?;
        Ok(text)
    }
}

pub(crate) fn missing_url() -> Rejection {
    Rejection::of(RejectionReason::MissingUrl, "the scheme signs the public URL; state `url` in the source")
}

impl FromStr for SignedTemplate {
    type Err = TemplateError;

    fn from_str(text: &str) -> Result<Self, TemplateError> {
        let mut parts = Vec::new();
        let mut rest = text;
        while !rest.is_empty() {
            let at = text.len() - rest.len();
            let literal_len = rest.find(['{', '}']).unwrap_or(rest.len());
            let (literal, tail) = rest.split_at(literal_len);
            if !literal.is_empty() {
                parts.push(Part::Literal(literal.to_owned()));
            }
            let Some(opened) = tail.strip_prefix('{') else {
                if tail.is_empty() {
                    break;
                }
                return Err(TemplateError::UnbalancedBrace(at + literal_len));
            };
            let (name, after) = opened.split_once('}').ok_or(TemplateError::UnbalancedBrace(at + literal_len))?;
            parts.push(placeholder(name)?);
            rest = after;
        }
        if !parts.contains(&Part::Body) {
            return Err(TemplateError::NoBody);
        }
        Ok(Self { text: text.to_owned(), parts })
    }
}

fn placeholder(name: &str) -> Result<Part, TemplateError> {
    match name {
        "body" => Ok(Part::Body),
        "timestamp" => Ok(Part::Timestamp),
        "method" => Ok(Part::Method),
        "url" => Ok(Part::Url),
        "header:" => Err(TemplateError::UnnamedHeader),
        other => match other.strip_prefix("header:") {
            Some(header) => Ok(Part::Header(header.to_owned())),
            None => Err(TemplateError::UnknownPlaceholder(other.chars().take(40).collect())),
        },
    }
}

impl fmt::Display for SignedTemplate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
