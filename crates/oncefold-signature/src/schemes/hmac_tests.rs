use super::*;
use crate::scheme::Scheme;
use crate::schemes::signature_place::{HeaderFields, SignatureEncoding};
use crate::schemes::signed_time::TimestampFormat;
use crate::verdict::Verdict;

/// RFC 4231 sections 4.2 to 4.8 without the truncated case 5: key and data in hex, HMAC-SHA-256, HMAC-SHA-512.
fn rfc4231() -> Vec<(String, Vec<u8>, &'static str, &'static str)> {
    let larger_key = "aa".repeat(131);
    vec![
        (
            "0b".repeat(20),
            b"Hi There".to_vec(),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7",
            "87aa7cdea5ef619d4ff0b4241a1d6cb02379f4e2ce4ec2787ad0b30545e17cdedaa833b7d6b8a702038b274eaea3f4e4be9d914eeb61f1702e696c203a126854",
        ),
        (
            hex::encode("Jefe"),
            b"what do ya want for nothing?".to_vec(),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
            "164b7a7bfcf819e2e395fbe73b56e0a387bd64222e831fd610270cd7ea2505549758bf75c05a994a6d034f65f8f0e6fdcaeab1a34d4a6b4b636e070a38bce737",
        ),
        (
            "aa".repeat(20),
            vec![0xdd; 50],
            "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe",
            "fa73b0089d56a284efb0f0756c890be9b1b5dbdd8ee81a3655f83e33b2279d39bf3e848279a722c806b485a47e67c807b946a337bee8942674278859e13292fb",
        ),
        (
            "0102030405060708090a0b0c0d0e0f10111213141516171819".to_owned(),
            vec![0xcd; 50],
            "82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b",
            "b0ba465637458c6990e5a8c5f61d4af7e576d97ff94b872de76f8050361ee3dba91ca5c11aa25eb4d679275cc5788063a5f19741120c4f2de2adebeb10a298dd",
        ),
        (
            larger_key.clone(),
            b"Test Using Larger Than Block-Size Key - Hash Key First".to_vec(),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54",
            "80b24263c7c1a3ebb71493c1dd7be8b49b46d1f41b4aeec1121b013783f8f3526b56d037e05f2598bd0fd2215d6a1e5295e64f73f63f0aec8b915a985d786598",
        ),
        (
            larger_key,
            b"This is a test using a larger than block-size key and a larger than block-size data. The key needs to be hashed before being used by the HMAC algorithm.".to_vec(),
            "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2",
            "e37b6a775dc87dbaa4dfa9f96e5e3ffddebd71f8867289865df5a32d20cdc944b6022cac3c4982b10d5eeb55c3e4de15134676fb6de0446065c97440fa8c6a58",
        ),
    ]
}

/// RFC 2202 section 3, cases 1 and 2.
const RFC2202_SHA1: [(&str, &str, &str); 2] = [
    ("0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b", "Hi There", "b617318655057264e28bc0b6fb378c8ef146be00"),
    ("4a656665", "what do ya want for nothing?", "effcdf6ae5eb2fa2d27416d5f184df9c259a7c79"),
];

fn scheme(algorithm: HmacAlgorithm) -> HmacScheme {
    HmacScheme { algorithm, key_encoding: KeyEncoding::Hex, ..HmacScheme::over_body("X-Sig") }
}

fn verify(scheme: &HmacScheme, secret: &str, headers: &[(&str, &[u8])], body: &[u8]) -> Verdict {
    let verifier = Scheme::Hmac(scheme.clone()).prepare(&[Secret::new(secret).unwrap()]).unwrap();
    let url = Some("https://example.test/in");
    let request = Request { method: "POST", url, query: "", path_token: None, headers, body };
    verifier.verify(&request, UnixTime::from_secs(1_000))
}

fn reason(verdict: Verdict) -> (RejectionReason, String) {
    match verdict {
        Verdict::Valid(verified) => panic!("accepted: {verified:?}"),
        Verdict::Invalid(rejection) => (rejection.reason, rejection.detail),
    }
}

#[test]
fn rfc_4231_and_2202_cases() {
    for (key, data, sha256, sha512) in rfc4231() {
        for (algorithm, tag) in [(HmacAlgorithm::Sha256, sha256), (HmacAlgorithm::Sha512, sha512)] {
            assert!(verify(&scheme(algorithm), &key, &[("x-sig", tag.as_bytes())], &data).is_valid(), "{tag}");
        }
    }
    for (key, data, tag) in RFC2202_SHA1 {
        assert!(verify(&scheme(HmacAlgorithm::Sha1), key, &[("x-sig", tag.as_bytes())], data.as_bytes()).is_valid());
    }
}

/// `echo -n '1000.POST.https://example.test/in.tenant.{}' | openssl dgst -sha256 -hmac 'a literal secret' -binary | base64`
const TEMPLATED: &str = "c4Eku8+xjw6Yj6uUC3PoVu25L3C6dralirexrjonqdE=";

fn templated() -> HmacScheme {
    HmacScheme {
        signature: SignaturePlace {
            encoding: SignatureEncoding::Base64,
            prefix: "sha256=".to_owned(),
            ..SignaturePlace::header("X-Sig")
        },
        signed: "{timestamp}.{method}.{url}.{header:X-Tenant}.{body}".parse().unwrap(),
        time: Some(SignedTime::header("X-Time")),
        ..HmacScheme::over_body("X-Sig")
    }
}

#[test]
fn every_placeholder_is_signed() {
    let signature = format!("sha256={TEMPLATED}");
    let headers: [(&str, &[u8]); 3] = [("x-sig", signature.as_bytes()), ("x-time", b"1000"), ("X-TENANT", b"tenant")];
    let verdict = verify(&templated(), "a literal secret", &headers, b"{}");
    assert_eq!(verdict, Verdict::Valid(Verified { secret_index: Some(0), signed_at_s: Some(1_000) }));
    for changed in 1..headers.len() {
        let mut headers = headers;
        headers[changed].1 = if changed == 1 { b"1001" } else { b"other" };
        let (reason, _) = reason(verify(&templated(), "a literal secret", &headers, b"{}"));
        assert_eq!(reason, RejectionReason::NoMatchingSignature);
    }
}

#[test]
fn a_missing_url_and_a_missing_prefix_are_told() {
    let headers: [(&str, &[u8]); 3] = [("x-sig", TEMPLATED.as_bytes()), ("x-time", b"1000"), ("X-TENANT", b"tenant")];
    let (why, detail) = reason(verify(&templated(), "a literal secret", &headers, b"{}"));
    assert_eq!(why, RejectionReason::MalformedSignature);
    assert_eq!(detail, "header X-Sig does not start with \"sha256=\"");

    let verifier = Scheme::Hmac(templated()).prepare(&[Secret::new("a literal secret").unwrap()]).unwrap();
    let signature = format!("sha256={TEMPLATED}");
    let headers: [(&str, &[u8]); 3] = [("x-sig", signature.as_bytes()), ("x-time", b"1000"), ("X-TENANT", b"tenant")];
    let request = Request { method: "POST", url: None, query: "", path_token: None, headers: &headers, body: b"{}" };
    assert_eq!(reason(verifier.verify(&request, UnixTime::from_secs(1_000))).0, RejectionReason::MissingUrl);
}

#[test]
fn the_wrong_encoding_is_told() {
    let base64 = "sDRMYdjbOFNcqK/OrwvxK4gdwgDJgz2nJuk3bC4yz/c=";
    let (why, detail) = reason(verify(&scheme(HmacAlgorithm::Sha256), "0b", &[("x-sig", base64.as_bytes())], b""));
    assert_eq!(why, RejectionReason::MalformedSignature);
    assert_eq!(detail, "header X-Sig holds base64 of 32 bytes, expected hex of 32 bytes");
    let upper = rfc4231()[0].2.to_ascii_uppercase();
    let (_, detail) = reason(verify(&scheme(HmacAlgorithm::Sha256), "0b", &[("x-sig", upper.as_bytes())], b""));
    assert_eq!(detail, "header X-Sig holds hex with upper-case letters of 32 bytes, expected hex of 32 bytes");
}

#[test]
fn millisecond_timestamps_are_bounded_both_ways() {
    let scheme = HmacScheme {
        signed: "{timestamp}{body}".parse().unwrap(),
        time: Some(SignedTime { format: TimestampFormat::UnixMillis, tolerance_s: 60, ..SignedTime::header("x-time") }),
        ..HmacScheme::over_body("x-sig")
    };
    let at = |time: &[u8]| {
        let signature = "0".repeat(64);
        reason(verify(&scheme, "secret", &[("x-sig", signature.as_bytes()), ("x-time", time)], b"")).0
    };
    assert_eq!(at(b"939999"), RejectionReason::TimestampTooOld);
    assert_eq!(at(b"940000"), RejectionReason::NoMatchingSignature);
    assert_eq!(at(b"1060999"), RejectionReason::NoMatchingSignature);
    assert_eq!(at(b"1061000"), RejectionReason::TimestampInFuture);
    assert_eq!(at(b"+1000000"), RejectionReason::MalformedTimestamp);
}

#[test]
fn bad_templates_name_what_is_wrong() {
    let error = |text: &str| text.parse::<SignedTemplate>().unwrap_err().to_string();
    assert!(error("{id}.{body}").starts_with("unknown placeholder {id} in the signed template"));
    assert_eq!(error("{body").as_str(), "unbalanced brace at byte 0 of the signed template");
    assert_eq!(error("a{body}b}").as_str(), "unbalanced brace at byte 8 of the signed template");
    assert!(error("{timestamp}").contains("has no {body}"));
    assert!(error("{header:}{body}").contains("names no header"));
    let template: SignedTemplate = "v0:{timestamp}:{body}".parse().unwrap();
    assert_eq!(template.to_string(), "v0:{timestamp}:{body}");
}

#[test]
fn unusable_keys_and_settings_are_refused() {
    let prepare = |scheme: &HmacScheme, secrets: &[&str]| {
        let secrets: Vec<_> = secrets.iter().map(|text| Secret::new(text).unwrap()).collect();
        scheme.prepare(&secrets).map(|verifier| verifier.warnings().to_vec()).map_err(|error| error.to_string())
    };
    let literal = HmacScheme::over_body("x-sig");
    let hex = scheme(HmacAlgorithm::Sha256);
    assert!(prepare(&literal, &[]).unwrap_err().contains("no secrets"));
    assert!(prepare(&hex, &["00ff", "xyz"]).unwrap_err().starts_with("secrets[1]: is not hex"));
    assert!(
        prepare(&literal, &["whpk_1SiA4o9hyqTCpIqC5V9HUakiiaeACeqfZTInDBbOir4="]).unwrap_err().contains("public key")
    );
    assert!(prepare(&literal, &["whsk_abc"]).unwrap_err().contains("private signing key"));
    assert_eq!(prepare(&literal, &["sixteen bytes..."]), Ok(vec![]));
    assert_eq!(prepare(&literal, &["long enough secret", "fifteen bytes.."]).unwrap().len(), 1);
    let unsigned = HmacScheme { time: Some(SignedTime::header("x-time")), ..HmacScheme::over_body("x-sig") };
    assert!(prepare(&unsigned, &["secret"]).unwrap_err().contains("is not signed"));
    let untimed = HmacScheme { signed: "{timestamp}{body}".parse().unwrap(), ..HmacScheme::over_body("x-sig") };
    assert!(prepare(&untimed, &["secret"]).unwrap_err().contains("timestamp_header"));
    assert!(prepare(&HmacScheme::over_body(""), &["secret"]).is_err());
}

/// A tag by the implementation that RFC 4231 checks above.
fn hex_tag(key: &str, text: &str) -> String {
    hex::encode(KeyedMac::keyed(HmacAlgorithm::Sha256, key.as_bytes()).over(&[text.as_bytes()]).as_slice())
}

#[test]
fn fields_in_one_header_may_hold_several_signatures_and_one_time() {
    let place = SignaturePlace {
        fields: Some(HeaderFields { separator: ';', signature: "h1".to_owned() }),
        ..SignaturePlace::header("Paddle-Signature")
    };
    let scheme = HmacScheme {
        signature: place,
        signed: "{timestamp}:{body}".parse().unwrap(),
        time: Some(SignedTime { place: TimestampPlace::Field("ts".to_owned()), ..SignedTime::header("") }),
        ..HmacScheme::over_body("")
    };
    let (right, wrong) = (hex_tag("a literal secret", "1000:{}"), "0".repeat(64));
    let verdict = |header: &str| verify(&scheme, "a literal secret", &[("paddle-signature", header.as_bytes())], b"{}");
    for header in [
        format!("ts=1000;h1={right}"),
        format!("ts=1000;h1={right};h1={wrong}"),
        format!("h1={wrong};h1={right};ts=1000;v=2"),
    ] {
        assert!(verdict(&header).is_valid(), "{header}");
    }
    let why = |header: &str| reason(verdict(header)).0;
    assert_eq!(why(&format!("ts=1000;ts=1000;h1={right}")), RejectionReason::DuplicateHeader);
    assert_eq!(why(&format!("ts=1000; h1={right}")), RejectionReason::MalformedHeader);
    assert_eq!(why(&format!("h1={right}")), RejectionReason::MalformedHeader);
    assert_eq!(why(&format!("ts=1000,h1={right}")), RejectionReason::MalformedHeader);
    assert_eq!(why(&format!("ts=1000;h1={wrong}")), RejectionReason::NoMatchingSignature);
}

#[test]
fn the_first_header_that_is_there_counts() {
    let headers = vec!["New".to_owned(), "Old".to_owned()];
    let scheme = HmacScheme {
        signature: SignaturePlace { headers, ..SignaturePlace::header("") },
        empty_body: false,
        ..HmacScheme::over_body("")
    };
    let (right, wrong) = (hex_tag("a literal secret", "{}"), "0".repeat(64));
    let (right, wrong) = (right.as_bytes(), wrong.as_bytes());
    let verdict = |headers: &[(&str, &[u8])], body: &[u8]| verify(&scheme, "a literal secret", headers, body);
    assert!(verdict(&[("old", right)], b"{}").is_valid());
    assert!(verdict(&[("old", wrong), ("new", right)], b"{}").is_valid());
    assert_eq!(reason(verdict(&[("old", right), ("new", wrong)], b"{}")).0, RejectionReason::NoMatchingSignature);
    assert_eq!(reason(verdict(&[("old", right), ("old", right)], b"{}")).0, RejectionReason::DuplicateHeader);
    let (why, detail) = reason(verdict(&[], b"{}"));
    assert_eq!((why, detail.as_str()), (RejectionReason::MissingHeader, "none of the headers New, Old is there"));
    let empty = hex_tag("a literal secret", "");
    assert_eq!(reason(verdict(&[("new", empty.as_bytes())], b"")).0, RejectionReason::EmptyBody);
}

#[test]
fn a_repeatable_header_takes_any_signature_and_an_optional_prefix_may_be_left_out() {
    let scheme = HmacScheme {
        signature: SignaturePlace {
            prefix: "sha256=".to_owned(),
            prefix_optional: true,
            repeatable: true,
            ..SignaturePlace::header("x-sig")
        },
        ..HmacScheme::over_body("")
    };
    let right = hex_tag("a literal secret", "{}");
    let prefixed = format!("sha256={right}");
    for value in [&right, &prefixed] {
        let headers: [(&str, &[u8]); 2] = [("x-sig", b"sha256=00"), ("x-sig", value.as_bytes())];
        assert!(verify(&scheme, "a literal secret", &headers, b"{}").is_valid());
    }
    let sha1 = format!("sha1={right}");
    assert!(!verify(&scheme, "a literal secret", &[("x-sig", sha1.as_bytes())], b"{}").is_valid());
    assert_eq!(reason(verify(&scheme, "a literal secret", &[], b"{}")).0, RejectionReason::MissingHeader);
}

#[test]
fn a_time_in_the_body_is_bounded() {
    let scheme = HmacScheme {
        time: Some(SignedTime {
            place: TimestampPlace::Body("/sent".to_owned()),
            format: TimestampFormat::UnixMillis,
            tolerance_s: 60,
        }),
        ..HmacScheme::over_body("x-sig")
    };
    let verdict = |body: &str| {
        let tag = hex_tag("a literal secret", body);
        verify(&scheme, "a literal secret", &[("x-sig", tag.as_bytes())], body.as_bytes())
    };
    let valid = Verdict::Valid(Verified { secret_index: Some(0), signed_at_s: Some(1_060) });
    assert_eq!(verdict(r#"{"sent":1060000}"#), valid);
    assert_eq!(verdict(r#"{"sent":"1060000"}"#), valid);
    let why = |body: &str| reason(verdict(body)).0;
    assert_eq!(why(r#"{"sent":939999}"#), RejectionReason::TimestampTooOld);
    assert_eq!(why(r#"{"sent":1061000}"#), RejectionReason::TimestampInFuture);
    for body in [r#"{"sent":1.06e6}"#, r#"{"sent":null}"#, "{}", "sent"] {
        assert_eq!(why(body), RejectionReason::MalformedTimestamp, "{body}");
    }
}

#[test]
fn instants_are_read_and_signed_as_they_are_written() {
    let scheme = HmacScheme {
        signed: "{timestamp}{body}".parse().unwrap(),
        time: Some(SignedTime { format: TimestampFormat::Rfc3339, ..SignedTime::header("x-time") }),
        ..HmacScheme::over_body("x-sig")
    };
    let verdict = |time: &str| {
        let tag = hex_tag("a literal secret", &format!("{time}{{}}"));
        verify(&scheme, "a literal secret", &[("x-sig", tag.as_bytes()), ("x-time", time.as_bytes())], b"{}")
    };
    for time in ["1970-01-01T00:16:40Z", "1970-01-01T02:16:40.999+02:00"] {
        assert!(verdict(time).is_valid(), "{time}");
    }
    assert_eq!(reason(verdict("1970-01-01T00:11:39Z")).0, RejectionReason::TimestampTooOld);
    for time in ["1000", "1970-01-01T00:16:40", "1970-01-01 00:16:40Z", "yesterday"] {
        assert_eq!(reason(verdict(time)).0, RejectionReason::MalformedTimestamp, "{time}");
    }
}

/// `wp_specialchars_decode` with ENT_QUOTES resolves once: `&amp;lt;` is `&lt;`.
#[test]
fn html_in_a_secret_is_resolved_once() {
    let decoded = |text: &str| KeyEncoding::Html.decode(text).and_then(|key| String::from_utf8(key).ok()).unwrap();
    assert_eq!(decoded("wc&amp;&lt;co&gt;&quot;x&#039;"), "wc&<co>\"x'");
    assert_eq!(decoded("&amp;lt;&nbsp;a&b"), "&lt;&nbsp;a&b");
}
