//! What a verified delivery says of itself, by the rules of every preset and some of our own: elements, id, type and
//! changes. No panic; what is read is within its bounds and stands where the rule says, as serde_json reads it.
#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use oncefold_config::{Config, SourceConfig, presets};
use oncefold_core::locator::Document;
use oncefold_core::model::IdRule;
use oncefold_core::outline::Outline;
use oncefold_core::prepare::Preparer;
use oncefold_core::{Digest, EventUuid, Facts, FactsJson, Message, Timestamp, json, prepare};
use serde_json::Value;
use std::sync::{Arc, LazyLock};

const HEX: &str = "44782DEF547AAA06C910C43932B1EB0C71FC68D9D0C057550C48EC2ACF6BA056";

/// Our own rules: nested arrays, optional parts, windows, forms, query.
const OWN: &str = r#"
[sources.parts]
verify = { scheme = "none" }
split = "/a/0"
id = [{ first = ["/x", "header:h"], optional = true }, "/id"]
type = "/t"
[sources.derived]
verify = { scheme = "none" }
id = { derive = ["/id", "/n", ""], window = "15m" }
type = { first = ["header:h", "query:q", "/t"] }
[[sources.derived.projections]]
on = ["*"]
entity = "thing"
key = ["/id", "query:q"]
version = ["/n", { at = "/u", type = "unix_ms" }]
each = "/lines"
state = { n = { at = "/n", type = "decimal" }, whole = "" }
[sources.form]
verify = { scheme = "none" }
format = "form"
id = "/id"
type = "/t"
[sources.query]
verify = { scheme = "none" }
format = "query"
id = "query:id"
type = "query:t"
"#;

static SOURCES: LazyLock<Vec<SourceConfig>> = LazyLock::new(|| {
    let mut text = OWN.replace("each = \"/lines\"\n", "");
    for preset in presets() {
        let name = preset.name;
        let secrets = if name == "sns" { String::new() } else { format!("secrets = [\"{HEX}\"]\n") };
        text.push_str(&format!("[sources.p-{name}]\npreset = \"{name}\"\nurl = \"https://h.example/in/x\"\n{secrets}"));
    }
    let loaded = Config::parse("fuzz.toml", &text, &|_| None);
    loaded.unwrap_or_else(|problems| panic!("{problems}")).config.sources
});

#[derive(Arbitrary, Debug)]
struct Input {
    source: u8,
    headers: Vec<(u8, String)>,
    query: String,
    body: Vec<u8>,
}

const HEADERS: [&str; 9] = [
    "h",
    "svix-id",
    "webhook-id",
    "x-shopify-topic",
    "x-shopify-event-id",
    "x-shopify-webhook-id",
    "x-github-event",
    "x-github-delivery",
    "x-wc-webhook-topic",
];

/// Elements are what serde_json finds there, as slices of the body.
fn check_elements(source: &SourceConfig, body: &[u8]) {
    let Some(tokens) = &source.split else { return };
    let pointer: String = tokens.iter().map(|t| format!("/{}", t.replace('~', "~0").replace('/', "~1"))).collect();
    let whole = json::parse(body).ok();
    let expected = whole.as_ref().and_then(|json| json.pointer(&pointer)).and_then(Value::as_array);
    let found = json::elements(body, tokens);
    assert_eq!(found.as_ref().map(Vec::len), expected.map(Vec::len), "{pointer}");
    for (found, expected) in found.iter().flatten().zip(expected.into_iter().flatten()) {
        assert!(body.as_ptr_range().contains(&found.as_ptr()) || found.is_empty());
        assert_eq!(&json::parse(found).unwrap(), expected);
    }
}

fuzz_target!(|input: Input| {
    let source = &SOURCES[usize::from(input.source) % SOURCES.len()];
    check_elements(source, &input.body);
    let headers: Vec<_> = input
        .headers
        .into_iter()
        .map(|(which, value)| (HEADERS[usize::from(which) % HEADERS.len()].to_owned(), value))
        .collect();
    let outline = prepare::identity_outline(&source.model);
    let parsed = prepare::read(source.model.format, &input.body, &outline).ok();
    let document = Document { json: parsed.as_ref(), headers: &headers, query: &input.query };
    let digest = Digest::of(&input.body);
    let at = Timestamp::from_micros(1_760_000_000_000_000);
    let identity = prepare::identify(&source.model, &document, &digest, at);
    let whole = prepare::read(source.model.format, &input.body, &Outline::whole()).ok();
    let whole = Document { json: whole.as_ref(), headers: &headers, query: &input.query };
    let same = prepare::identify(&source.model, &whole, &digest, at);
    assert_eq!(
        (&identity.event_id, &identity.event_type),
        (&same.event_id, &same.event_type),
        "parts differ from the whole"
    );
    if let Ok(id) = &identity.event_id {
        assert!(!id.is_empty() && id.len() <= 256 && !id.contains('\0'), "{id:?}");
        if let (IdRule::Parts(_), [place]) = (&source.model.id, source.model.id.places().as_slice()) {
            let found = place.find(&document).expect("an id that stands nowhere");
            assert_eq!(found.as_str(), Some(id.as_str()));
        }
    }
    if let Ok(event_type) = &identity.event_type {
        assert!(!event_type.is_empty() && event_type.len() <= 200 && !event_type.contains('\0'), "{event_type:?}");
    }
    let facts = Facts { headers: headers.clone(), query: input.query.clone(), ..Facts::default() };
    let message = Message {
        id: EventUuid::from_bytes([0; 16]),
        source: source.model.name.clone(),
        event_id: "id".to_owned(),
        event_type: None,
        received_at: at,
        generation: 0,
        attempts: 0,
        digest,
        facts: FactsJson::encode(&facts),
        body: input.body.clone().into(),
    };
    let preparer = Preparer::of(Arc::new(source.model.clone()));
    assert_eq!(preparer.prepare(&message), preparer.prepare(&message), "not a function of the message");
});
