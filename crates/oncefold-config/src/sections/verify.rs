//! `[sources.X.verify]`: how deliveries are verified.

use crate::reader::{Node, Schema, Table};
use oncefold_signature::{
    HeaderFamily, HmacAlgorithm, HmacScheme, KeyEncoding, Scheme, SignatureEncoding, SignedTemplate, StandardWebhooks,
    StripeScheme, TimestampFormat, TokenPlace, TokenScheme,
};
use std::time::Duration;

pub(crate) const SCHEMA: Schema = Schema {
    title: "[sources.X.verify]",
    keys: &[
        "scheme",
        "algorithm",
        "header",
        "encoding",
        "prefix",
        "key_encoding",
        "signed",
        "timestamp_header",
        "timestamp_format",
        "tolerance",
        "headers",
        "in",
        "name",
    ],
    later: &["certificates", "key_id_header"],
};

const TOLERANCE: std::ops::RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(86_400);
const KEY_ENCODINGS: [(&str, KeyEncoding); 3] =
    [("literal", KeyEncoding::Literal), ("base64", KeyEncoding::Base64), ("hex", KeyEncoding::Hex)];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Hmac,
    StandardWebhooks,
    Stripe,
    Token,
    Basic,
    None,
}

const KINDS: [(&str, Kind); 6] = [
    ("hmac", Kind::Hmac),
    ("standard-webhooks", Kind::StandardWebhooks),
    ("stripe", Kind::Stripe),
    ("token", Kind::Token),
    ("basic", Kind::Basic),
    ("none", Kind::None),
];

impl Kind {
    const fn settings(self) -> &'static [&'static str] {
        match self {
            Self::Hmac => &[
                "algorithm",
                "header",
                "encoding",
                "prefix",
                "key_encoding",
                "signed",
                "timestamp_header",
                "timestamp_format",
                "tolerance",
            ],
            Self::StandardWebhooks => &["headers", "key_encoding", "tolerance"],
            Self::Stripe => &["tolerance"],
            Self::Token => &["in", "name", "prefix"],
            Self::Basic | Self::None => &[],
        }
    }
}

/// The scheme with its settings; nothing where they cannot be used.
pub(crate) fn read(table: &Table<'_>) -> Option<Scheme> {
    let Some(node) = table.get("scheme") else {
        table.missing(
            "scheme",
            "set `preset`, or `[sources.X.verify] scheme` to hmac, standard-webhooks, stripe, token, basic or none",
        );
        return None;
    };
    let kind = node.choice(&KINDS)?;
    let name = KINDS.iter().find(|(_, k)| *k == kind).map_or("", |(name, _)| name);
    for key in SCHEMA.keys.iter().filter(|key| **key != "scheme" && !kind.settings().contains(key)) {
        if let Some(stray) = table.get(key) {
            let takes = match kind.settings() {
                [] => "it takes none".to_owned(),
                settings => format!("it takes {}", settings.join(", ")),
            };
            stray.problem(format!("`{key}` is no setting of scheme {name:?}"), format!("remove it; {takes}"));
        }
    }
    match kind {
        Kind::Hmac => hmac(table).map(Scheme::Hmac),
        Kind::StandardWebhooks => Some(Scheme::StandardWebhooks(standard_webhooks(table))),
        Kind::Stripe => Some(Scheme::Stripe(StripeScheme {
            tolerance_s: tolerance(table).unwrap_or(StripeScheme::default().tolerance_s),
        })),
        Kind::Token => token(table).map(Scheme::Token),
        Kind::Basic => Some(Scheme::Basic),
        Kind::None => Some(Scheme::None),
    }
}

/// Whole seconds, past and future alike.
fn tolerance(table: &Table<'_>) -> Option<u32> {
    let node = table.get("tolerance")?;
    let tolerance = node.duration(TOLERANCE)?;
    if tolerance.subsec_millis() != 0 {
        node.problem("signatures are timed in whole seconds", "write whole seconds, such as \"300s\"");
    }
    u32::try_from(tolerance.as_secs()).ok()
}

fn header_name(node: &Node<'_>) -> Option<String> {
    let text = node.text("the name of a header")?;
    let is_name =
        !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b));
    if !is_name {
        node.problem("is no header name", "write the name alone, such as \"X-Signature\"");
    }
    is_name.then(|| text.to_owned())
}

fn hmac(table: &Table<'_>) -> Option<HmacScheme> {
    let Some(header) = table.get("header") else {
        table.missing("header", "name the header that carries the signature");
        return None;
    };
    let mut scheme = HmacScheme::over_body(header_name(&header)?);
    let algorithms = [HmacAlgorithm::Sha1, HmacAlgorithm::Sha256, HmacAlgorithm::Sha512].map(|a| (a.as_str(), a));
    let encodings = [SignatureEncoding::Hex, SignatureEncoding::Base64].map(|e| (e.as_str(), e));
    let formats = [("unix_s", TimestampFormat::UnixSeconds), ("unix_ms", TimestampFormat::UnixMillis)];
    let choose = |key| table.get(key);
    scheme.algorithm = choose("algorithm").and_then(|n| n.choice(&algorithms)).unwrap_or(scheme.algorithm);
    scheme.encoding = choose("encoding").and_then(|n| n.choice(&encodings)).unwrap_or(scheme.encoding);
    scheme.key_encoding = choose("key_encoding").and_then(|n| n.choice(&KEY_ENCODINGS)).unwrap_or(scheme.key_encoding);
    scheme.timestamp_format = choose("timestamp_format").and_then(|n| n.choice(&formats)).unwrap_or_default();
    scheme.tolerance_s = tolerance(table).unwrap_or(scheme.tolerance_s);
    scheme.prefix = prefix(table);
    scheme.timestamp_header = table.get("timestamp_header").and_then(|n| header_name(&n));
    if let Some(node) = table.get("signed") {
        scheme.signed = signed(&node)?;
    }
    check_timestamp(table, &scheme);
    Some(scheme)
}

fn prefix(table: &Table<'_>) -> String {
    let text = table.get("prefix").and_then(|n| n.text("what stands before it, such as \"sha256=\""));
    text.unwrap_or_default().to_owned()
}

fn signed(node: &Node<'_>) -> Option<SignedTemplate> {
    match node.text("a template such as \"{timestamp}.{body}\"")?.parse() {
        Ok(template) => Some(template),
        Err(e) => {
            let error: oncefold_signature::TemplateError = e;
            node.problem(error.to_string(), "write a template such as \"{timestamp}.{body}\"");
            None
        }
    }
}

/// A timestamp has to be signed, and to be bounded once it is.
fn check_timestamp(table: &Table<'_>, scheme: &HmacScheme) {
    let signs = scheme.signed.to_string().contains("{timestamp}");
    match (signs, table.get("timestamp_header")) {
        (true, None) => {
            table.missing("timestamp_header", "name the header that `{timestamp}` in `signed` stands for");
        }
        (false, Some(node)) => node.problem(
            "the timestamp is not signed, so it would not stop a replay",
            "put {timestamp} into `signed`, or remove `timestamp_header`",
        ),
        (true, Some(_)) => {}
        (false, None) => {
            for key in ["timestamp_format", "tolerance"] {
                if let Some(node) = table.get(key) {
                    node.problem("has no effect without `timestamp_header`", "remove it, or state the header");
                }
            }
        }
    }
}

fn standard_webhooks(table: &Table<'_>) -> StandardWebhooks {
    let mut scheme = StandardWebhooks { headers: HeaderFamily::Webhook, ..StandardWebhooks::default() };
    let families = [("svix", HeaderFamily::SvixThenWebhook), ("webhook", HeaderFamily::Webhook)];
    scheme.headers = table.get("headers").and_then(|n| n.choice(&families)).unwrap_or(scheme.headers);
    let encoding = table.get("key_encoding").and_then(|n| n.choice(&KEY_ENCODINGS));
    scheme.key_encoding = encoding.unwrap_or(scheme.key_encoding);
    scheme.tolerance_s = tolerance(table).unwrap_or(scheme.tolerance_s);
    scheme
}

fn token(table: &Table<'_>) -> Option<TokenScheme> {
    #[derive(Clone, Copy, PartialEq, Eq)]
    enum In {
        Header,
        Query,
        Path,
    }
    let Some(node) = table.get("in") else {
        table.missing("in", "say where the token is: \"header\", \"query\" or \"path\"");
        return None;
    };
    let place = node.choice(&[("header", In::Header), ("query", In::Query), ("path", In::Path)])?;
    let prefix = prefix(table);
    let name = table.get("name");
    let place = match (place, name) {
        (In::Path, None) => TokenPlace::Path,
        (In::Path, Some(node)) => {
            node.problem("a token in the path has no name: it is /in/{source}/{token}", "remove `name`");
            TokenPlace::Path
        }
        (_, None) => {
            table.missing("name", "name the header or query parameter that carries the token");
            return None;
        }
        (In::Header, Some(node)) => TokenPlace::Header(header_name(&node)?),
        (In::Query, Some(node)) => {
            let name = node.text("the name of a query parameter")?;
            if name.is_empty() {
                node.problem("is empty", "name the query parameter that carries the token");
            }
            TokenPlace::Query(name.to_owned())
        }
    };
    Some(TokenScheme { place, prefix })
}
