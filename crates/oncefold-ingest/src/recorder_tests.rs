use super::*;
use crate::settings::{Respond, SourceKeys};
use http::{HeaderName, HeaderValue, Method};
use oncefold_core::SourceName;
use oncefold_core::model::{BodyFormat, IdRule};
use oncefold_signature::Scheme;

fn recorder(redact_headers: &[&str], redact_query: &[&str]) -> Recorder {
    let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    Recorder::of(&IntakeSource {
        model: Source {
            name: SourceName::parse("shop").unwrap(),
            id: IdRule::Parts(vec![Locator::parse("header:X-Id").unwrap(), Locator::parse("query:part").unwrap()]),
            event_type: Locator::parse("/type").unwrap(),
            format: BodyFormat::Json,
            projections: vec![],
        },
        keys: SourceKeys {
            verifier: Scheme::None.prepare(&[]).unwrap(),
            scheme_name: "none".to_owned(),
            secrets: vec![],
            handshake: None,
        },
        split: None,
        takes_gzip: false,
        methods: vec![Method::POST],
        respond: Respond::default(),
        public_url: None,
        path_token: false,
        redact_headers: owned(redact_headers),
        redact_query: owned(redact_query),
    })
}

fn headers(pairs: &[(&str, &[u8])]) -> HeaderMap {
    let pair = |(name, value): &(&str, &[u8])| {
        (HeaderName::from_bytes(name.as_bytes()).unwrap(), HeaderValue::from_bytes(value).unwrap())
    };
    pairs.iter().map(pair).collect()
}

fn of(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

#[test]
fn headers_are_kept_in_order_as_text_without_credentials() {
    let given = headers(&[
        ("X-B", b"caf\xe9"),
        ("Authorization", b"Bearer t0p"),
        ("x-a", b"1"),
        ("Cookie", b"t0p"),
        ("Proxy-Authorization", b"t0p"),
        ("X-Token", b"t0p"),
        ("content-type", b"application/json"),
    ]);
    let recorded = recorder(&["X-TOKEN"], &[]).record(&given, "", None);
    let expected = of(&[
        ("x-b", "caf\u{fffd}"),
        ("authorization", "[redacted]"),
        ("x-a", "1"),
        ("cookie", "[redacted]"),
        ("proxy-authorization", "[redacted]"),
        ("x-token", "[redacted]"),
        ("content-type", "application/json"),
    ]);
    assert_eq!(recorded.headers, expected);
    assert_eq!(recorded.content_type.as_deref(), Some("application/json"));
}

#[test]
fn secrets_in_the_query_are_left_out_however_their_name_is_written() {
    let recorder = recorder(&[], &["token"]);
    let query = |query| recorder.record(&HeaderMap::new(), query, None).query;
    assert_eq!(query("a=1&token=t0p&b=%20x"), "a=1&token=[redacted]&b=%20x");
    assert_eq!(query("tok%65n=t0p&&token"), "tok%65n=[redacted]&token=[redacted]");
}

/// Proxies copy the path and the query into headers of their own.
#[test]
fn secrets_of_path_and_query_are_left_out_of_headers_too() {
    let given = headers(&[("x-original-uri", b"/in/shop/p4th?token=t0p"), ("referer", b"/x?token=t0p"), ("x-a", b"p")]);
    let recorder = recorder(&[], &["token"]);
    let recorded = recorder.record(&given, "token=t0p", Some("p4th"));
    let expected = of(&[("x-original-uri", "[redacted]"), ("referer", "[redacted]"), ("x-a", "p")]);
    assert_eq!(recorded.headers, expected);
    let recorded = recorder.record(&headers(&[("x-original-uri", b"/in/shop/p4th")]), "", Some("p4th"));
    assert_eq!(recorded.headers, of(&[("x-original-uri", "[redacted]")]));
}

/// A short token may stand in a header by chance; and a copy may be encoded as the path was, or decoded.
#[test]
fn a_header_that_a_rule_reads_is_kept_and_copies_are_found_in_either_form() {
    let given = headers(&[("x-id", b"shop/paid"), ("x-path", b"/in/s/a%2Bb"), ("x-plain", b"/in/s/a+b")]);
    let recorded = recorder(&[], &[]).record(&given, "", Some("shop"));
    assert_eq!(recorded.headers[0].1, "shop/paid");
    let recorded = recorder(&[], &["token"]).record(&given, "token=a%2Bb", Some("a+b"));
    assert_eq!(recorded.headers, of(&[("x-id", "shop/paid"), ("x-path", "[redacted]"), ("x-plain", "[redacted]")]));
}

#[test]
fn what_does_not_fit_is_left_out_and_what_rules_read_is_kept_first() {
    let long = "v".repeat(9_000);
    let given = headers(&[("x-one", long.as_bytes()), ("x-two", long.as_bytes()), ("x-id", long.as_bytes())]);
    let recorded = recorder(&[], &[]).record(&given, "", None);
    assert_eq!(recorded.headers, of(&[("x-id", &long)]), "one fits beside nothing else");

    let given = headers(&[("x-one", long.as_bytes()), ("x-two", long.as_bytes()), ("x-id", b"7"), ("x-z", b"8")]);
    let recorded = recorder(&[], &[]).record(&given, "", None);
    assert_eq!(recorded.headers, of(&[("x-one", &long), ("x-id", "7"), ("x-z", "8")]));
    let size: usize = recorded.headers.iter().map(|(name, value)| name.len() + value.len()).sum();
    assert!(size <= 16 * 1024);

    let query = format!("a={long}&b={}&part=7", "w".repeat(5_000));
    assert_eq!(
        recorder(&[], &[]).record(&HeaderMap::new(), &query, None).query,
        format!("b={}&part=7", "w".repeat(5_000))
    );
}

#[test]
fn a_content_type_is_cut_between_characters() {
    let given = headers(&[("content-type", "é".repeat(150).as_bytes())]);
    let content_type = recorder(&[], &[]).record(&given, "", None).content_type.unwrap();
    assert_eq!(content_type, "é".repeat(100));
}
