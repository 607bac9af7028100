use crate::mac::{HmacAlgorithm, KeyedMac};
use crate::request::Request;
use crate::scheme::Scheme;
use crate::schemes::hmac::HmacScheme;
use crate::schemes::signature_place::{SignatureEncoding, SignaturePlace};
use crate::schemes::signed_time::{SignedTime, TimestampFormat};
use crate::schemes::standard_webhooks::StandardWebhooks;
use crate::schemes::stripe::StripeScheme;
use crate::secret::Secret;
use crate::time::UnixTime;
use crate::verdict::Verdict;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::hmac;

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

fn mac(key: &[u8], message: &[u8]) -> Vec<u8> {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), message).as_ref().to_vec()
}

const NOW: UnixTime = UnixTime::from_secs(100_000);

/// What an operator reads for a request that came at `NOW`.
fn told(scheme: &Scheme, headers: &[(&str, &[u8])], body: &[u8]) -> String {
    let verifier = scheme.prepare(&[Secret::new(SECRET).unwrap()]).unwrap();
    let request = Request { method: "POST", url: None, query: "", path_token: None, headers, body };
    match verifier.verify(&request, NOW) {
        Verdict::Valid(_) => "valid".to_owned(),
        Verdict::Invalid(rejection) => verifier.diagnose(&request, NOW, &rejection),
    }
}

fn over_body(key: &[u8], signed: &[u8], received: &[u8]) -> String {
    let signature = hex::encode(mac(key, signed));
    told(&Scheme::Hmac(HmacScheme::over_body("x-sig")), &[("x-sig", signature.as_bytes())], received)
}

#[test]
fn a_changed_body_is_recognised() {
    let literal = SECRET.as_bytes();
    let cases: &[(&str, &str, &str)] = &[
        ("{}\n", "{}", "with a trailing newline"),
        ("{}", " {}\n", "without the white space around it"),
        ("\u{feff}{}", "{}", "with a byte order mark"),
        ("{}", "\u{feff}{}", "without its byte order mark"),
        ("{\r\n}", "{\n}", "with CRLF line ends"),
        (r#"{"b":1.50,"a":[1,"x y"]}"#, r#"{"b": 1.50, "a": [1, "x y"]}"#, "the body as compact JSON;"),
        (r#"{"b": 1.50, "a": [1, "x\"} y"]}"#, r#"{"b":1.50,"a":[1,"x\"} y"]}"#, "as JSON with \", \" and \": \""),
        ("{\n  \"a\": [\n    1\n  ],\n  \"b\": {}\n}", r#"{"a":[1],"b":{}}"#, "as JSON indented by 2"),
        (r#"{"a": "\u00e4\ud83d\ude00"}"#, r#"{"a":"ä😀"}"#, "and \\u escapes"),
        (r#"{"a":"ä😀\n"}"#, r#"{"a":"\u00e4\ud83d\ude00\n"}"#, "without \\u escapes"),
        (r#"{"a":"http:\/\/x"}"#, r#"{"a":"http://x"}"#, "escaped as \\/"),
        (r#"{"a":"x\\","b":"\\\"y"}"#, r#"{"a": "x\\", "b": "\\\"y"}"#, "the body as compact JSON;"),
        (r#"{"a":1,"b":2}"#, r#"{"b":2, "a":1}"#, "sorted keys"),
    ];
    for (signed, received, expected) in cases {
        let told = over_body(literal, signed.as_bytes(), received.as_bytes());
        assert!(told.contains("body changed") && told.contains(expected), "{signed} as {received}: {told}");
    }
    let latin1 = over_body(literal, b"{\"a\":\"\xe4\"}", "{\"a\":\"ä\"}".as_bytes());
    assert!(latin1.contains("in Latin-1"), "{latin1}");
}

#[test]
fn an_otherwise_read_secret_is_recognised() {
    let decoded = STANDARD.decode(&SECRET["whsec_".len()..]).unwrap();
    let told_hmac = over_body(&decoded, b"{}", b"{}");
    assert!(told_hmac.contains("takes secrets[0] decoded as base64, this source takes it as literal"), "{told_hmac}");

    let stripe_way = format!("v1,{}", STANDARD.encode(mac(SECRET.as_bytes(), b"msg_1.100000.{}")));
    let headers: [(&str, &[u8]); 3] =
        [("svix-id", b"msg_1"), ("svix-timestamp", b"100000"), ("svix-signature", stripe_way.as_bytes())];
    let told_svix = told(&Scheme::StandardWebhooks(StandardWebhooks::default()), &headers, b"{}");
    assert!(told_svix.contains("as literal text, this source takes it as base64"), "{told_svix}");
}

#[test]
fn another_encoding_is_recognised() {
    let base64 = STANDARD.encode(mac(SECRET.as_bytes(), b"{}"));
    let told_hex = told(&Scheme::Hmac(HmacScheme::over_body("x-sig")), &[("x-sig", base64.as_bytes())], b"{}");
    assert!(told_hex.contains("base64 of 32 bytes, expected hex"), "{told_hex}");
    assert!(told_hex.contains("fits secrets[0] but is written in another encoding"), "{told_hex}");
    let hex = hex::encode(mac(SECRET.as_bytes(), b"{}"));
    let scheme = HmacScheme {
        signature: SignaturePlace { encoding: SignatureEncoding::Base64, ..SignaturePlace::header("x-sig") },
        ..HmacScheme::over_body("x-sig")
    };
    let told_base64 = told(&Scheme::Hmac(scheme), &[("x-sig", hex.as_bytes())], b"{}");
    assert!(told_base64.contains("lower-case hex of 32 bytes, expected base64"), "{told_base64}");
    assert!(told_base64.contains("another encoding"), "{told_base64}");
}

#[test]
fn a_late_delivery_is_told_from_a_wrong_one() {
    let header = |key: &[u8]| format!("t=99588,v1={}", hex::encode(mac(key, b"99588.{}")));
    let stripe = Scheme::Stripe(StripeScheme::default());
    let late = told(&stripe, &[("stripe-signature", header(SECRET.as_bytes()).as_bytes())], b"{}");
    assert!(late.starts_with("timestamp is 412 s old, tolerance is 300 s\n"), "{late}");
    assert!(late.contains("the signature itself fits secrets[0]"), "{late}");
    let wrong = told(&stripe, &[("stripe-signature", header(b"another one's").as_bytes())], b"{}");
    assert!(wrong.contains("under no other reading"), "{wrong}");
}

#[test]
fn headers_of_another_scheme_are_named() {
    let headers: [(&str, &[u8]); 2] = [("content-type", b"text/plain"), ("Svix-Signature", b"v1,abc")];
    let told_stripe = told(&Scheme::Stripe(StripeScheme::default()), &headers, b"{}");
    assert!(told_stripe.contains("the request has \"Svix-Signature\""), "{told_stripe}");
    let nothing = told(&Scheme::Stripe(StripeScheme::default()), &[], b"{}");
    assert!(nothing.contains("does the sender sign"), "{nothing}");
}

#[test]
fn a_clock_in_another_unit_or_zone_is_recognised() {
    let stripe = |time: &str| {
        let header = format!("t={time},v1={}", hex::encode(mac(SECRET.as_bytes(), format!("{time}.{{}}").as_bytes())));
        told(&Scheme::Stripe(StripeScheme::default()), &[("stripe-signature", header.as_bytes())], b"{}")
    };
    assert!(stripe("100000010").contains("taken as milliseconds the timestamp is near"));
    assert!(stripe("103610").contains("off by almost exactly 1 h"));
    assert!(stripe("92790").contains("off by almost exactly 2 h"));
    assert!(!stripe("95000").contains("off by almost"));
    assert!(stripe("46000").contains("54000 s old") && !stripe("46000").contains("off by almost"));
}

/// What the sender signed is worked out from the stated URL, the received query and the proxy's headers.
#[test]
fn a_signed_url_that_differs_is_shown_beside_the_stated_one() {
    let scheme = HmacScheme { signed: "{url}{body}".parse().unwrap(), ..HmacScheme::over_body("x-sig") };
    let stated = "https://shop.example/in/square";
    for signed in [
        "http://shop.example/in/square",
        "https://shop.example/in/square/",
        "https://shop.example:443/in/square",
        "https://shop.example/in/square?a=1",
        "https://inner.example/in/square",
    ] {
        let tag = KeyedMac::keyed(HmacAlgorithm::Sha256, b"a literal secret").over(&[signed.as_bytes(), b"{}"]);
        let tag = hex::encode(tag.as_slice());
        let headers: [(&str, &[u8]); 2] = [("x-sig", tag.as_bytes()), ("host", b"inner.example")];
        let request = Request {
            method: "POST",
            url: Some(stated),
            query: "a=1",
            path_token: None,
            headers: &headers,
            body: b"{}",
        };
        let verifier = Scheme::Hmac(scheme.clone()).prepare(&[Secret::new("a literal secret").unwrap()]).unwrap();
        let Verdict::Invalid(rejection) = verifier.verify(&request, UnixTime::from_secs(0)) else { panic!("accepted") };
        let explanation = verifier.diagnose(&request, UnixTime::from_secs(0), &rejection);
        let expected = format!("signed URL differs: the sender signed \"{signed}\", this source states \"{stated}\"");
        assert!(explanation.contains(&expected), "{explanation}");
    }
}

#[test]
fn a_timestamp_of_another_unit_is_told() {
    let time = SignedTime { format: TimestampFormat::UnixMillis, ..SignedTime::header("x-time") };
    let millis =
        HmacScheme { signed: "{timestamp}{body}".parse().unwrap(), time: Some(time), ..HmacScheme::over_body("x-sig") };
    let seconds = HmacScheme { time: Some(SignedTime::header("x-time")), ..millis.clone() };
    let told = |scheme: HmacScheme, time: &[u8]| {
        let signature = "0".repeat(64);
        told(&Scheme::Hmac(scheme), &[("x-sig", signature.as_bytes()), ("x-time", time)], b"{}")
    };
    assert!(told(millis.clone(), b"100000").contains("taken as seconds the timestamp is near"));
    assert!(told(seconds.clone(), b"100000000").contains("taken as milliseconds the timestamp is near"));
    assert!(told(seconds, b"92800").contains("off by almost exactly 2 h"));
    assert!(told(millis, b"92800000").contains("off by almost exactly 2 h"));
}

#[test]
fn a_secret_in_entities_and_a_body_without_metas_escapes_are_told() {
    let scheme = Scheme::Hmac(HmacScheme::over_body("x-sig"));
    let verifier = scheme.prepare(&[Secret::new("wc&<co>\"x'").unwrap()]).unwrap();
    let told = |key: &[u8], signed: &[u8], body: &[u8]| {
        let signature = hex::encode(mac(key, signed));
        let headers: [(&str, &[u8]); 1] = [("x-sig", signature.as_bytes())];
        let request = Request { method: "POST", url: None, query: "", path_token: None, headers: &headers, body };
        let Verdict::Invalid(rejection) = verifier.verify(&request, NOW) else { panic!("accepted") };
        verifier.diagnose(&request, NOW, &rejection)
    };
    let old = told(b"wc&amp;&lt;co&gt;&quot;x&#039;", b"{}", b"{}");
    assert!(old.contains("takes secrets[0] with HTML entities"), "{old}");
    let sent = br#"{"a":"\u00e4\/\u003C\u0025\u0040"}"#;
    let meta = told(b"wc&<co>\"x'", sent, "{\"a\":\"\u{e4}/<%@\"}".as_bytes());
    assert!(meta.contains("with \\u escapes as Meta writes them"), "{meta}");
}
