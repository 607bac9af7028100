//! Where a request carries its signature, and how it is written there.

use crate::diagnosis;
use crate::encoding::{self, Presented};
use crate::request::Request;
use crate::secret::KeyError;
use crate::verdict::{Rejection, RejectionReason};
use std::str::FromStr;

/// How a signature is written in its header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SignatureEncoding {
    /// Lower-case hex.
    #[default]
    Hex,
    /// Base64, standard alphabet, padded.
    Base64,
}

impl SignatureEncoding {
    /// The name in the config.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Hex => "hex",
            Self::Base64 => "base64",
        }
    }

    pub(crate) fn encode(self, signature: &[u8]) -> String {
        match self {
            Self::Hex => hex::encode(signature),
            Self::Base64 => encoding::to_base64(signature),
        }
    }

    pub(crate) fn decode(self, text: &[u8], len: usize) -> Option<Presented> {
        match self {
            Self::Hex => encoding::signature_from_hex(text, len),
            Self::Base64 => encoding::signature_from_base64(text, len),
        }
    }
}

impl FromStr for SignatureEncoding {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "hex" => Ok(Self::Hex),
            "base64" => Ok(Self::Base64),
            other => Err(format!("unknown signature encoding {other:?}; one of hex, base64")),
        }
    }
}

/// `ts=…;h1=…`: fields in the signature's header, as at Paddle. Other fields than the named are not looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeaderFields {
    /// Between two fields.
    pub separator: char,
    /// The field with the signature; it may be repeated, and any one may fit.
    pub signature: String,
}

/// The header with the signature.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignaturePlace {
    /// The first of these that is there counts, whether its signature fits or not.
    pub headers: Vec<String>,
    /// Fields in the header; none where the whole value is the signature.
    pub fields: Option<HeaderFields>,
    /// What stands before the signature, such as `sha256=`. Empty for nothing.
    pub prefix: String,
    /// Whether a signature may come without the prefix.
    pub prefix_optional: bool,
    /// Whether the header may be repeated, one signature for each of the sender's secrets.
    pub repeatable: bool,
    /// How the signature is written.
    pub encoding: SignatureEncoding,
}

/// Signatures that are tried; a sender in rotation shows two.
const MOST_SIGNATURES: usize = 16;

impl SignaturePlace {
    /// Lower-case hex, nothing else, in this header.
    pub fn header(name: impl Into<String>) -> Self {
        Self {
            headers: vec![name.into()],
            fields: None,
            prefix: String::new(),
            prefix_optional: false,
            repeatable: false,
            encoding: SignatureEncoding::default(),
        }
    }

    pub(crate) fn check(&self) -> Result<(), KeyError> {
        if self.headers.is_empty() || self.headers.iter().any(String::is_empty) {
            return Err(KeyError::settings("the signature's header has no name"));
        }
        if self.fields.as_ref().is_some_and(|fields| fields.signature.is_empty()) {
            return Err(KeyError::settings("the signature's field in the header has no name"));
        }
        Ok(())
    }

    /// The header that counts: the first that is there, else the first of all.
    pub(crate) fn name(&self, req: &Request<'_>) -> &str {
        let present = self.headers.iter().find(|name| req.has_header(name));
        present.or(self.headers.first()).map_or("", String::as_str)
    }

    /// The header's values, one at least.
    fn values<'a>(&self, req: &Request<'a>) -> Result<impl Iterator<Item = &'a [u8]>, Rejection> {
        let present = self.headers.iter().find_map(|name| {
            let mut values = req.header_values(name);
            values.next().map(|first| (name, first, values))
        });
        let (name, first, mut others) = present.ok_or_else(|| missing(&self.headers))?;
        if !self.repeatable && others.next().is_some() {
            req.sole_header(name)?;
        }
        Ok(std::iter::once(first).chain(others.take(MOST_SIGNATURES - 1)))
    }

    /// The texts behind the prefix, one at least.
    pub(crate) fn texts<'a>(&self, req: &Request<'a>) -> Result<Vec<&'a [u8]>, Rejection> {
        let values = self.values(req)?;
        let mut texts: Vec<&[u8]> = match &self.fields {
            None => values.collect(),
            Some(fields) => values
                .flat_map(|value| field_values(value, fields.separator, &fields.signature))
                .take(MOST_SIGNATURES)
                .collect(),
        };
        if let (true, Some(fields)) = (texts.is_empty(), &self.fields) {
            let detail = format!("header {} has no {}= field", self.name(req), fields.signature);
            return Err(Rejection::of(RejectionReason::MalformedHeader, detail));
        }
        if !self.prefix.is_empty() {
            texts = texts.into_iter().filter_map(|text| self.without_prefix(text)).collect();
        }
        if texts.is_empty() {
            let detail = format!("header {} does not start with {:?}", self.name(req), self.prefix);
            return Err(Rejection::of(RejectionReason::MalformedSignature, detail));
        }
        Ok(texts)
    }

    fn without_prefix<'a>(&self, text: &'a [u8]) -> Option<&'a [u8]> {
        match text.strip_prefix(self.prefix.as_bytes()) {
            None if self.prefix_optional => Some(text),
            stripped => stripped,
        }
    }

    /// The decoded signatures of `len` bytes, one at least; what is in another form beside them is skipped.
    pub(crate) fn signatures(&self, req: &Request<'_>, len: usize) -> Result<Vec<Presented>, Rejection> {
        let texts = self.texts(req)?;
        let decoded: Vec<_> = texts.iter().filter_map(|text| self.encoding.decode(text, len)).collect();
        if decoded.is_empty() {
            let first = texts.first().copied().unwrap_or_default();
            let expected = format!("{} of {len} bytes", self.encoding.as_str());
            return Err(diagnosis::malformed_signature(&format!("header {}", self.name(req)), first, &expected));
        }
        Ok(decoded)
    }

    /// What the signatures may be in any encoding, with or without prefix; for diagnosis only.
    pub(crate) fn readings(&self, req: &Request<'_>) -> Vec<Vec<u8>> {
        let values: Vec<_> = req.header_values(self.name(req)).take(MOST_SIGNATURES).collect();
        let fields = self.fields.iter().flat_map(|fields| {
            values.iter().flat_map(|value| field_values(value, fields.separator, &fields.signature))
        });
        let texts = values.iter().copied().chain(fields);
        let texts = texts.map(|text| text.strip_prefix(self.prefix.as_bytes()).unwrap_or(text));
        texts.flat_map(encoding::readings).map(|(_, bytes)| bytes).collect()
    }
}

fn missing(headers: &[String]) -> Rejection {
    let detail = match headers {
        [name] => format!("header {name} is missing"),
        names => format!("none of the headers {} is there", names.join(", ")),
    };
    Rejection::of(RejectionReason::MissingHeader, detail)
}

/// The values of a field in `k=v;k=v`; names are compared exactly, spaces included.
pub(crate) fn field_values<'a>(header: &'a [u8], separator: char, name: &str) -> impl Iterator<Item = &'a [u8]> {
    let fields = header.split(move |byte| char::from(*byte) == separator);
    fields.filter_map(move |field| field.strip_prefix(name.as_bytes())?.strip_prefix(b"="))
}
