use super::*;
use crate::scheme::Scheme;
use crate::verdict::Verdict;

/// Key and notifications that Adyen issued (adyen-python-api-library, test/UtilTest.py and test/mocks/util): the key
/// in hex, what stands in the item, its signature.
const KEY: &str = "44782DEF547AAA06C910C43932B1EB0C71FC68D9D0C057550C48EC2ACF6BA056";
const PUBLISHED: &str = r#"{"additionalData":{"hmacSignature":"coqCmt/IZ4E3CzPvMY8zTjQVL5hYJUiBRg8UU+iCWo0="},
    "pspReference":"7914073381342284","merchantReference":"TestPayment-1407325143704",
    "merchantAccountCode":"TestMerchant","amount":{"currency":"EUR","value":1130},
    "eventCode":"AUTHORISATION","success":"true"}"#;

fn delivery(items: &[&str]) -> String {
    let items: Vec<_> = items.iter().map(|item| format!("{{\"NotificationRequestItem\": {item}}}")).collect();
    format!("{{\"live\":\"false\",\"notificationItems\":[{}]}}", items.join(","))
}

fn with_verifier<T>(body: &str, then: impl FnOnce(&Verifier, &Request<'_>) -> T) -> T {
    let verifier = Scheme::Adyen.prepare(&[Secret::new(KEY).unwrap()]).unwrap();
    let headers = [];
    let body = body.as_bytes();
    then(&verifier, &Request { method: "POST", url: None, query: "", path_token: None, headers: &headers, body })
}

const NOW: UnixTime = UnixTime::from_secs(0);

fn refused(body: &str) -> RejectionReason {
    with_verifier(body, |verifier, request| match verifier.verify(request, NOW) {
        Verdict::Valid(_) => panic!("accepted: {body}"),
        Verdict::Invalid(rejection) => rejection.reason,
    })
}

#[test]
fn items_are_judged_one_by_one_over_their_exact_bytes() {
    let forged = PUBLISHED.replace("1130", "9130");
    let body = delivery(&[PUBLISHED, &forged]);
    with_verifier(&body, |verifier, request| {
        let items = verifier.verify_items(request, NOW).unwrap();
        assert_eq!(items.iter().map(|item| item.verdict.is_valid()).collect::<Vec<_>>(), [true, false]);
        assert_eq!(items[0].body, PUBLISHED.as_bytes());
        let Verdict::Invalid(rejection) = verifier.verify(request, NOW) else { panic!("accepted") };
        assert!(rejection.detail.starts_with("item 2 of 2: "), "{}", rejection.detail);
    });
    assert!(with_verifier(&delivery(&[PUBLISHED, PUBLISHED]), |v, request| v.verify(request, NOW)).is_valid());
}

#[test]
fn a_body_that_can_be_read_two_ways_is_refused() {
    let twice = delivery(&[PUBLISHED]).replace("{\"live\"", "{\"notificationItems\":[],\"live\"");
    let inner = PUBLISHED.replace("\"currency\":\"EUR\",", "\"currency\":\"EUR\",\"currency\":\"EUR\",");
    let spelled = PUBLISHED.replace("\"success\"", "\"succ\\u0065ss\":\"false\",\"success\"");
    let colon = PUBLISHED.replace("\"TestMerchant\"", "\"Test:Merchant\"");
    let boolean = PUBLISHED.replace("\"true\"", "true");
    let list = PUBLISHED.replace("{\"currency\":\"EUR\",\"value\":1130}", "[{\"currency\":\"EUR\",\"value\":1130}]");
    let empty = delivery(&[]);
    let deep = PUBLISHED.replace("{\"hmacSignature\"", "{\"x\":{\"y\":1,\"y\":2},\"hmacSignature\"");
    let items = [inner, spelled, deep, colon, boolean, list].map(|item| delivery(&[&item]));
    for body in items.iter().chain([&twice, &empty]) {
        assert_eq!(refused(body), RejectionReason::MalformedBody, "{body}");
    }
    assert_eq!(refused(&delivery(&[&PUBLISHED.replace("hmacSignature", "hmac")])), RejectionReason::MissingSignature);
}

#[test]
fn a_signature_over_escaped_fields_is_explained() {
    let key = KeyedMac::keyed(ALGORITHM, &hex::decode(KEY).unwrap());
    let signed = r"7914073381342284::TestMerchant:a\:b:1130:EUR:AUTHORISATION:true";
    let signature = encoding::to_base64(key.over(&[signed.as_bytes()]).as_slice());
    let item = PUBLISHED
        .replace("TestPayment-1407325143704", "a:b")
        .replace("coqCmt/IZ4E3CzPvMY8zTjQVL5hYJUiBRg8UU+iCWo0=", &signature);
    with_verifier(&delivery(&[&item]), |verifier, request| {
        let Verdict::Invalid(rejection) = verifier.verify(request, NOW) else { panic!("accepted") };
        let explanation = verifier.diagnose(request, NOW, &rejection);
        assert!(explanation.contains("over escaped fields"), "{explanation}");
        assert!(!explanation.contains(&signature[..20]), "{explanation}");
    });
}
