//! `[sources.X.verify]`: how deliveries are verified.

mod signature;

use crate::reader::{Node, Schema, Table};
use oncefold_signature::{
    HeaderFamily, HmacAlgorithm, KeyEncoding, PayPalScheme, Scheme, SnsScheme, StandardWebhooks, StripeScheme,
    TokenPlace, TokenScheme, TwilioScheme,
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
        "prefix_optional",
        "repeatable",
        "signature_field",
        "separator",
        "key_encoding",
        "signed",
        "timestamp_header",
        "timestamp_field",
        "timestamp_pointer",
        "timestamp_format",
        "tolerance",
        "empty_body",
        "headers",
        "topics",
        "in",
        "name",
    ],
    later: &["key_id_header"],
};

const TOLERANCE: std::ops::RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(86_400);
const KEY_ENCODINGS: [(&str, KeyEncoding); 4] = [
    ("literal", KeyEncoding::Literal),
    ("base64", KeyEncoding::Base64),
    ("hex", KeyEncoding::Hex),
    ("html", KeyEncoding::Html),
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Hmac,
    StandardWebhooks,
    Stripe,
    Ed25519,
    Twilio,
    Adyen,
    PayPal,
    Sns,
    Token,
    Basic,
    None,
}

const KINDS: [(&str, Kind); 11] = [
    ("hmac", Kind::Hmac),
    ("standard-webhooks", Kind::StandardWebhooks),
    ("stripe", Kind::Stripe),
    ("ed25519", Kind::Ed25519),
    ("twilio", Kind::Twilio),
    ("adyen", Kind::Adyen),
    ("paypal", Kind::PayPal),
    ("sns", Kind::Sns),
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
                "prefix_optional",
                "repeatable",
                "signature_field",
                "separator",
                "key_encoding",
                "signed",
                "timestamp_header",
                "timestamp_field",
                "timestamp_pointer",
                "timestamp_format",
                "tolerance",
                "empty_body",
            ],
            Self::Ed25519 => &[
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
            Self::Twilio => &["algorithm"],
            Self::Sns => &["topics"],
            Self::Token => &["in", "name", "prefix"],
            Self::Adyen | Self::PayPal | Self::Basic | Self::None => &[],
        }
    }
}

/// The scheme with its settings; nothing where they cannot be used.
pub(crate) fn read(table: &Table<'_>) -> Option<Scheme> {
    let Some(node) = table.get("scheme") else {
        table.missing(
            "scheme",
            "set `preset`, or `[sources.X.verify] scheme` to hmac, standard-webhooks, ed25519, token, basic or none, or to the provider's",
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
        Kind::Hmac => signature::hmac(table).map(Scheme::Hmac),
        Kind::Ed25519 => signature::ed25519(table).map(Scheme::Ed25519),
        Kind::Twilio => Some(Scheme::Twilio(TwilioScheme { algorithm: algorithm(table) })),
        Kind::Adyen => Some(Scheme::Adyen),
        Kind::PayPal => Some(Scheme::PayPal(PayPalScheme::default())),
        Kind::Sns => Some(Scheme::Sns(SnsScheme { topics: topics(table), certificates: vec![] })),
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

fn algorithm(table: &Table<'_>) -> Option<HmacAlgorithm> {
    let algorithms = [HmacAlgorithm::Sha1, HmacAlgorithm::Sha256, HmacAlgorithm::Sha512].map(|a| (a.as_str(), a));
    table.get("algorithm").and_then(|n| n.choice(&algorithms))
}

/// ARNs of SNS topics.
fn topics(table: &Table<'_>) -> Vec<String> {
    let Some(node) = table.get("topics") else { return vec![] };
    let items = node.items("a list of topics, such as [\"arn:aws:sns:eu-west-1:123456789012:orders\"]");
    let topics = items.unwrap_or_default().into_iter().filter_map(|item| {
        let text = item.text("the ARN of a topic")?;
        if !text.starts_with("arn:") {
            item.problem("is no ARN", "copy the topic's ARN, such as \"arn:aws:sns:eu-west-1:123456789012:orders\"");
        }
        Some(text.to_owned())
    });
    topics.collect()
}

fn prefix(table: &Table<'_>) -> String {
    let text = table.get("prefix").and_then(|n| n.text("what stands before it, such as \"sha256=\""));
    text.unwrap_or_default().to_owned()
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
