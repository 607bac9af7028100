//! The valid vectors, changed where their structure is: nothing panics, and nothing is accepted but what the sender
//! signed. What a change may leave intact is judged by other parsers than those that verify.

use super::vectors::Vector;
use super::*;
use oncefold_signature::{Handshake, Rejection, Secret, UnixTime, Verdict};
use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::Value;
use std::collections::BTreeSet;
use std::sync::LazyLock;

/// Valid vectors with their sources; setting up keys once keeps the cases fast.
static VALID: LazyLock<Vec<(Vector, SourceConfig)>> = LazyLock::new(|| {
    let valid = Vector::all().into_iter().filter(|vector| vector.is_valid);
    valid.map(|vector| (vector.source().unwrap(), vector)).map(|(source, vector)| (vector, source)).collect()
});

#[derive(Clone, Debug)]
enum Edit {
    Flip(Index, u8),
    Insert(Index, Vec<u8>),
    Remove(Index, usize),
    /// A piece of the text once more, somewhere else: repeated fields, names and signatures.
    Copy(Index, usize, Index),
}

impl Edit {
    fn applied(&self, text: &[u8]) -> Vec<u8> {
        let mut out = text.to_vec();
        let place = |index: &Index| index.index(text.len() + 1);
        match self {
            Self::Flip(at, bits) if !text.is_empty() => out[at.index(text.len())] ^= bits,
            Self::Flip(..) => {}
            Self::Insert(at, bytes) => drop(out.splice(place(at)..place(at), bytes.iter().copied())),
            Self::Remove(at, count) => drop(out.drain(place(at)..(place(at) + count).min(text.len()))),
            Self::Copy(from, count, to) => {
                let piece = text[place(from)..(place(from) + count).min(text.len())].to_vec();
                out.splice(place(to)..place(to), piece);
            }
        }
        out
    }
}

#[derive(Clone, Debug)]
enum Mutation {
    Body(Vec<Edit>),
    Header(Index, Edit),
    DropHeader(Index),
    RepeatHeader(Index, Option<Edit>),
    Url(Edit),
    Method,
    Clock(i64),
}

fn edit() -> impl Strategy<Value = Edit> {
    let grammar = prop::sample::select(vec![
        ",",
        ";",
        "=",
        " ",
        ".",
        ":",
        "|",
        "v1,",
        "v1=",
        "v0=",
        "t=",
        "ts=",
        "h1=",
        "sha256=",
        "\"",
        "{",
        "}",
        "\\",
        "\\u0000",
        "&",
        "+",
        "%",
        "%00",
        "\n",
        "\u{feff}",
        "null",
        "true",
        "\"success\":\"false\",",
        "\"Type\":\"Notification\",",
        "0",
        "-",
        "1e3",
    ]);
    let bytes =
        prop_oneof![grammar.prop_map(|text| text.as_bytes().to_vec()), prop::collection::vec(any::<u8>(), 1..4)];
    prop_oneof![
        (any::<Index>(), 1_u8..).prop_map(|(at, bits)| Edit::Flip(at, bits)),
        any::<Index>().prop_map(|at| Edit::Flip(at, 0x20)),
        (any::<Index>(), bytes).prop_map(|(at, bytes)| Edit::Insert(at, bytes)),
        (any::<Index>(), 1_usize..80).prop_map(|(at, count)| Edit::Remove(at, count)),
        (any::<Index>(), 1_usize..120, any::<Index>()).prop_map(|(from, count, to)| Edit::Copy(from, count, to)),
    ]
}

fn mutation() -> impl Strategy<Value = Mutation> {
    prop_oneof![
        3 => prop::collection::vec(edit(), 1..3).prop_map(Mutation::Body),
        3 => (any::<Index>(), edit()).prop_map(|(which, edit)| Mutation::Header(which, edit)),
        1 => any::<Index>().prop_map(Mutation::DropHeader),
        1 => (any::<Index>(), prop::option::of(edit())).prop_map(|(which, edit)| Mutation::RepeatHeader(which, edit)),
        1 => edit().prop_map(Mutation::Url),
        1 => Just(Mutation::Method),
        1 => (-100_000_i64..100_000).prop_map(Mutation::Clock),
    ]
}

impl Mutation {
    fn applied(&self, original: &Vector) -> Vector {
        let mut vector = original.clone();
        match self {
            Self::Body(edits) => vector.body = edits.iter().fold(vector.body, |body, edit| edit.applied(&body)),
            Self::Header(which, edit) if !vector.headers.is_empty() => {
                let value = &mut vector.headers[which.index(original.headers.len())].1;
                *value = edit.applied(value);
            }
            Self::DropHeader(which) if !vector.headers.is_empty() => {
                vector.headers.remove(which.index(original.headers.len()));
            }
            Self::RepeatHeader(which, edit) if !vector.headers.is_empty() => {
                let (name, value) = original.headers[which.index(original.headers.len())].clone();
                let value = edit.as_ref().map_or_else(|| value.clone(), |edit| edit.applied(&value));
                vector.headers.push((name, value));
            }
            Self::Url(edit) => {
                vector.url = String::from_utf8_lossy(&edit.applied(vector.url.as_bytes())).into_owned();
            }
            Self::Method => vector.method = "PUT".to_owned(),
            Self::Clock(by) => vector.now = UnixTime::from_secs(vector.now.as_secs() + by),
            Self::Header(..) | Self::DropHeader(_) | Self::RepeatHeader(..) => {}
        }
        vector
    }
}

/// Headers whose text is signed.
const SIGNED: [&str; 12] = [
    "svix-id",
    "svix-timestamp",
    "webhook-id",
    "webhook-timestamp",
    "x-slack-request-timestamp",
    "x-zm-request-timestamp",
    "x-zendesk-webhook-signature-timestamp",
    "x-hubspot-request-timestamp",
    "x-signature-timestamp",
    "paypal-transmission-id",
    "paypal-transmission-time",
    "paypal-auth-algo",
];
/// Headers whose text is the signature, or holds it among other fields.
const SIGNATURES: [&str; 20] = [
    "svix-signature",
    "webhook-signature",
    "stripe-signature",
    "x-shopify-hmac-sha256",
    "shopify-hmac-sha256",
    "x-hub-signature",
    "x-hub-signature-256",
    "x-square-hmacsha256-signature",
    "x-mollie-signature",
    "paddle-signature",
    "x-wc-webhook-signature",
    "hmacsignature",
    "x-slack-signature",
    "x-zm-signature",
    "x-dropbox-signature",
    "x-hubspot-signature-v3",
    "linear-signature",
    "x-signature-ed25519",
    "paypal-transmission-sig",
    "x-twilio-signature",
];

fn values<'a>(vector: &'a Vector, name: &str) -> Vec<&'a [u8]> {
    vector.headers.iter().filter(|(given, _)| given == name).map(|(_, value)| value.as_slice()).collect()
}

/// The pieces of a signature header that are long enough to be signatures, lower case.
fn tokens(value: &[u8]) -> BTreeSet<String> {
    let text = String::from_utf8_lossy(value).to_ascii_lowercase();
    let pieces = text.split([',', ' ', ';', '=']).filter(|piece| piece.len() >= 26).map(str::to_owned);
    pieces.collect()
}

/// Whether everything that is signed is as the sender made it, by the meaning of the preset's scheme.
fn same_signed_content(preset: &str, before: &Vector, after: &Vector) -> Result<(), String> {
    // Where svix-* is there, webhook-* is not looked at.
    let is_read = |name: &str| !name.starts_with("webhook-") || values(before, "svix-id").is_empty();
    for name in SIGNED.into_iter().filter(|name| is_read(name)) {
        if values(before, name) != values(after, name) {
            let folded = |v: &Vector| values(v, name).iter().map(|t| t.to_ascii_lowercase()).collect::<Vec<_>>();
            let same_but_for_case = name == "paypal-auth-algo" && folded(before) == folded(after);
            if !same_but_for_case {
                return Err(format!("{name} changed"));
            }
        }
    }
    for name in SIGNATURES.into_iter().filter(|name| is_read(name)) {
        let known: BTreeSet<_> = values(before, name).into_iter().flat_map(tokens).collect();
        let shown: BTreeSet<_> = values(after, name).into_iter().flat_map(tokens).collect();
        // Shopify: of two families the first counts, and a delivery has one.
        if !known.is_empty() && known.is_disjoint(&shown) {
            return Err(format!("{name} has no signature of the sender's"));
        }
    }
    let same_body = match preset {
        "adyen" => fields(&before.body, &ADYEN) == fields(&after.body, &ADYEN),
        "sns" => fields(&before.body, &SNS) == fields(&after.body, &SNS),
        "twilio" if !before.url.contains("bodySHA256") => form(&before.body) == form(&after.body),
        _ => before.body == after.body,
    };
    if !same_body {
        return Err("the signed part of the body changed".to_owned());
    }
    let signs_url = ["square", "hubspot", "twilio"].contains(&preset);
    let bare = |url: &str| url.split('#').next().unwrap_or_default().replace(":443", "");
    if signs_url && bare(&before.url) != bare(&after.url) {
        return Err("the signed URL changed".to_owned());
    }
    if preset == "hubspot" && before.method != after.method {
        return Err("the signed method changed".to_owned());
    }
    Ok(())
}

const ADYEN: [&str; 9] = [
    "/pspReference",
    "/originalReference",
    "/merchantAccountCode",
    "/merchantReference",
    "/amount/value",
    "/amount/currency",
    "/eventCode",
    "/success",
    "/additionalData/hmacSignature",
];
const SNS: [&str; 8] =
    ["/Message", "/MessageId", "/Subject", "/Timestamp", "/TopicArn", "/Type", "/Token", "/SubscribeURL"];

/// The values at these pointers, of each Adyen item or of the whole, numbers and texts as texts.
fn fields(body: &[u8], pointers: &[&str]) -> Option<Vec<Vec<String>>> {
    let json: Value = serde_json::from_slice(body).ok()?;
    let whole = vec![json.clone()];
    let items = json.pointer("/notificationItems").and_then(Value::as_array);
    let items = items.map(|items| items.iter().map(|item| item["NotificationRequestItem"].clone()).collect());
    let text = |value: Option<&Value>| match value {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    };
    let of = |item: &Value| pointers.iter().map(|pointer| text(item.pointer(pointer))).collect();
    Some(items.unwrap_or(whole).iter().map(of).collect())
}

fn form(body: &[u8]) -> BTreeSet<(String, String)> {
    form_urlencoded::parse(body).into_owned().collect()
}

fn handshakes(secret: &Secret) -> Vec<Handshake> {
    vec![
        Handshake::Slack,
        Handshake::Meta { verify_token: secret.clone() },
        Handshake::Zoom,
        Handshake::Dropbox,
        Handshake::MicrosoftGraph,
        Handshake::Okta,
        Handshake::Sns { topics: vec!["arn:aws:sns:eu-west-1:123456789012:orders".to_owned()] },
        Handshake::Xero,
        Handshake::Discord,
        Handshake::WooCommerce,
        Handshake::Probe,
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn nothing_is_accepted_but_what_was_signed(which in any::<Index>(), mutation in mutation()) {
        let (original, source) = &VALID[which.index(VALID.len())];
        let mutated = mutation.applied(original);
        let verdict = mutated.with_request(|request| source.verifier.verify(request, mutated.now));
        let items = mutated.with_request(|request| {
            let items = source.verifier.verify_items(request, mutated.now);
            items.is_ok_and(|items| !items.is_empty() && items.iter().all(|item| item.verdict.is_valid()))
        });
        prop_assert_eq!(items, verdict.is_valid(), "{}: one by one and as a whole differ", original.name);
        match verdict {
            Verdict::Valid(_) => {
                let same = same_signed_content(&original.preset, original, &mutated);
                prop_assert!(same.is_ok(), "{} accepted: {}", original.name, same.unwrap_err());
            }
            Verdict::Invalid(rejection) => {
                prop_assert!(rejection.detail.len() <= Rejection::MAX_DETAIL);
                prop_assert!(!rejection.detail.chars().any(char::is_control), "{:?}", rejection.detail);
            }
        }
    }

    #[test]
    fn a_diagnosis_never_panics_nor_shows_a_secret(which in any::<Index>(), mutation in mutation()) {
        let (original, source) = &VALID[which.index(VALID.len())];
        let mutated = mutation.applied(original);
        let Verdict::Invalid(rejection) = mutated.with_request(|r| source.verifier.verify(r, mutated.now)) else {
            return Ok(());
        };
        let told = mutated.with_request(|request| source.verifier.diagnose(request, mutated.now, &rejection));
        for secret in original.secrets.iter().filter(|secret| secret.len() > 8) {
            prop_assert!(!told.contains(secret.as_str()), "{}: {told}", original.name);
        }
    }

    #[test]
    fn handshakes_never_panic_and_echo_no_page(which in any::<Index>(), mutation in mutation()) {
        let (original, source) = &VALID[which.index(VALID.len())];
        let secret = source.secrets.first().cloned().unwrap_or_else(|| Secret::new("0123456789abcdef").unwrap());
        let mutated = mutation.applied(original);
        for handshake in handshakes(&secret) {
            mutated.with_request(|request| {
                let _ = handshake.signed(request, Some(&secret));
                if let Some(answer) = handshake.unsigned(request) {
                    assert!(answer.body.is_empty() || answer.nosniff, "{handshake:?}");
                }
            });
        }
    }
}

#[test]
fn every_shipped_preset_with_vectors_has_a_valid_one() {
    let presets: BTreeSet<_> = VALID.iter().map(|(vector, _)| vector.preset.as_str()).collect();
    let without: BTreeSet<_> =
        presets_with_vectors().difference(&presets.iter().map(|p| (*p).to_owned()).collect()).cloned().collect();
    // Their recorded vectors are all of what has to be refused; the signing side is checked against the scheme below.
    assert_eq!(without, BTreeSet::from(["xero", "zendesk", "zoom"].map(str::to_owned)));
}

fn presets_with_vectors() -> BTreeSet<String> {
    Vector::all().into_iter().map(|vector| vector.preset).collect()
}
