//! Settings of schemes that sign a template of the request: where the signature stands, what it is over, which time it
//! covers.

use super::{KEY_ENCODINGS, algorithm, header_name, prefix, tolerance};
use crate::reader::{Node, Table};
use oncefold_core::locator::Locator;
use oncefold_signature::{
    Ed25519Scheme, HeaderFields, HmacScheme, KeyEncoding, SignatureEncoding, SignaturePlace, SignedTemplate,
    SignedTime, TemplateError, TimestampFormat, TimestampPlace,
};

pub(super) fn hmac(table: &Table<'_>) -> Option<HmacScheme> {
    let mut scheme = HmacScheme { signature: place(table)?, ..HmacScheme::over_body("") };
    scheme.algorithm = algorithm(table).unwrap_or(scheme.algorithm);
    scheme.key_encoding = key_encoding(table).unwrap_or(scheme.key_encoding);
    scheme.empty_body = flag(table, "empty_body").unwrap_or(scheme.empty_body);
    if let Some(node) = table.get("signed") {
        scheme.signed = signed(&node)?;
    }
    scheme.time = time(table, &scheme.signed);
    if let Some(node) = table.get("timestamp_field")
        && scheme.signature.fields.is_none()
    {
        node.problem("there are no fields in the signature's header", "set `signature_field` beside it");
    }
    Some(scheme)
}

pub(super) fn ed25519(table: &Table<'_>) -> Option<Ed25519Scheme> {
    let signature = place(table)?;
    let signed = table.get("signed").map_or_else(|| Some(SignedTemplate::body_only()), |node| signed(&node))?;
    let time = time(table, &signed);
    let key_encoding = key_encoding(table).unwrap_or(KeyEncoding::Hex);
    Some(Ed25519Scheme { signature, key_encoding, signed, time })
}

fn key_encoding(table: &Table<'_>) -> Option<KeyEncoding> {
    table.get("key_encoding").and_then(|n| n.choice(&KEY_ENCODINGS))
}

fn flag(table: &Table<'_>, key: &'static str) -> Option<bool> {
    table.get(key).and_then(|n| n.boolean())
}

/// The header, or the first of several that is there.
fn place(table: &Table<'_>) -> Option<SignaturePlace> {
    let Some(node) = table.get("header") else {
        table.missing("header", "name the header that carries the signature");
        return None;
    };
    let nodes = node.one_or_more();
    if nodes.is_empty() {
        node.problem("is an empty list", "name the header that carries the signature");
    }
    let headers: Vec<_> = nodes.iter().map(header_name).collect::<Option<_>>()?;
    let encodings = [SignatureEncoding::Hex, SignatureEncoding::Base64].map(|e| (e.as_str(), e));
    let mut place = SignaturePlace { headers, ..SignaturePlace::header("") };
    place.encoding = table.get("encoding").and_then(|n| n.choice(&encodings)).unwrap_or(place.encoding);
    place.prefix = prefix(table);
    place.prefix_optional = flag(table, "prefix_optional").unwrap_or(place.prefix_optional);
    place.repeatable = flag(table, "repeatable").unwrap_or(place.repeatable);
    place.fields = fields(table);
    Some(place)
}

fn fields(table: &Table<'_>) -> Option<HeaderFields> {
    let separator = table.get("separator").map(|node| {
        let text = node.text("one character, such as \";\"").unwrap_or(",");
        let mut characters = text.chars();
        match (characters.next(), characters.next()) {
            (Some(one), None) if one.is_ascii_punctuation() || one == ' ' => one,
            _ => {
                node.problem("is not one character", "write what stands between two fields, such as \";\"");
                ','
            }
        }
    });
    let Some(node) = table.get("signature_field") else {
        if let Some(node) = table.get("separator") {
            node.problem("has no effect without `signature_field`", "remove it, or name the field");
        }
        return None;
    };
    let signature = header_name(&node)?;
    Some(HeaderFields { separator: separator.unwrap_or(','), signature })
}

fn signed(node: &Node<'_>) -> Option<SignedTemplate> {
    match node.text("a template such as \"{timestamp}.{body}\"")?.parse() {
        Ok(template) => Some(template),
        Err(e) => {
            let error: TemplateError = e;
            node.problem(error.to_string(), "write a template such as \"{timestamp}.{body}\"");
            None
        }
    }
}

/// A timestamp has to be signed, and to be bounded once it is.
fn time(table: &Table<'_>, signed: &SignedTemplate) -> Option<SignedTime> {
    let signs = signed.to_string().contains("{timestamp}");
    let place = timestamp_place(table);
    let outside = ["timestamp_header", "timestamp_field"].into_iter().find_map(|key| Some((key, table.get(key)?)));
    match (signs, outside) {
        (true, None) => table.missing("timestamp_header", "name the header that `{timestamp}` in `signed` stands for"),
        (false, Some((key, node))) => node.problem(
            "the timestamp is not signed, so it would not stop a replay",
            format!("put {{timestamp}} into `signed`, or remove `{key}`"),
        ),
        _ => {}
    }
    let formats = [
        ("unix_s", TimestampFormat::UnixSeconds),
        ("unix_ms", TimestampFormat::UnixMillis),
        ("rfc3339", TimestampFormat::Rfc3339),
    ];
    let format = table.get("timestamp_format").and_then(|n| n.choice(&formats)).unwrap_or_default();
    let tolerance_s = tolerance(table).unwrap_or(SignedTime::DEFAULT_TOLERANCE_S);
    if place.is_none() && !signs {
        for key in ["timestamp_format", "tolerance"] {
            if let Some(node) = table.get(key) {
                node.problem("has no effect without `timestamp_header`", "remove it, or state the header");
            }
        }
    }
    Some(SignedTime { place: place?, format, tolerance_s })
}

fn timestamp_place(table: &Table<'_>) -> Option<TimestampPlace> {
    let header = table.get("timestamp_header").and_then(|n| header_name(&n)).map(TimestampPlace::Header);
    let field = table.get("timestamp_field").and_then(|n| header_name(&n)).map(TimestampPlace::Field);
    let pointer = table.get("timestamp_pointer").and_then(|node| {
        match node.locator()? {
            Locator::Pointer(tokens) if !tokens.is_empty() => {}
            _ => node.problem("is no pointer into the body", "write one such as \"/sent_at\""),
        }
        node.text("a pointer such as \"/sent_at\"").map(|text| TimestampPlace::Body(text.to_owned()))
    });
    let mut places = [header, field, pointer].into_iter().flatten();
    let place = places.next();
    if places.next().is_some() {
        let keys = ["timestamp_pointer", "timestamp_field"];
        if let Some(node) = keys.into_iter().find_map(|key| table.get(key)) {
            node.problem("the signature covers one timestamp", "keep one of the `timestamp_…` places");
        }
    }
    place
}
