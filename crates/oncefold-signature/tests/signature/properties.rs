//! No panic on anything, and no acceptance of anything but what a holder of the secret signed.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use oncefold_signature::{
    Ed25519Scheme, HmacScheme, KeyEncoding, PayPalScheme, Rejection, Request, Scheme, Secret, SignaturePlace,
    SignedTime, SnsScheme, StandardWebhooks, StripeScheme, TokenPlace, TokenScheme, TwilioScheme, UnixTime, Verdict,
    Verifier,
};
use proptest::prelude::*;
use ring::hmac;

const NOW: UnixTime = UnixTime::from_secs(1_760_000_000);
const TIMESTAMP: &str = "1760000000";
const LITERAL_SECRET: &str = "whsec_dGhpcyBpcyBhIHNlY3JldCBvZiAyNCs=";
const KEY_BEHIND_PREFIX: &[u8] = b"this is a secret of 24+";
const ID: &str = "msg_3Qd7Zk1VbYpLw9sTnHcRe5";

type Headers = Vec<(&'static str, Vec<u8>)>;

fn schemes() -> Vec<Scheme> {
    let mut with_timestamp = HmacScheme::over_body("x-signature");
    with_timestamp.signature.prefix = "v0=".to_owned();
    with_timestamp.signed = "v0:{timestamp}:{body}".parse().expect("template");
    with_timestamp.time = Some(SignedTime::header("x-timestamp"));
    vec![
        Scheme::Hmac(HmacScheme::over_body("x-signature")),
        Scheme::Hmac(with_timestamp),
        Scheme::StandardWebhooks(StandardWebhooks::default()),
        Scheme::Stripe(StripeScheme::default()),
        Scheme::Token(TokenScheme { place: TokenPlace::Header("x-token".to_owned()), prefix: String::new() }),
        Scheme::Token(TokenScheme { place: TokenPlace::Query("key".to_owned()), prefix: String::new() }),
        Scheme::Token(TokenScheme { place: TokenPlace::Path, prefix: String::new() }),
        Scheme::Twilio(TwilioScheme::default()),
        Scheme::PayPal(PayPalScheme::default()),
        Scheme::Sns(SnsScheme::default()),
        Scheme::Adyen,
        Scheme::Ed25519(ed25519()),
    ]
}

fn ed25519() -> Ed25519Scheme {
    Ed25519Scheme {
        signature: SignaturePlace::header("x-signature"),
        key_encoding: KeyEncoding::Hex,
        signed: "{timestamp}{body}".parse().expect("template"),
        time: Some(SignedTime::header("x-timestamp")),
    }
}

/// A secret that the scheme takes.
fn secrets(scheme: &Scheme) -> Vec<Secret> {
    let text = match scheme {
        Scheme::Sns(_) => return vec![],
        Scheme::Adyen | Scheme::Ed25519(_) => "11e9c531075802432bb1ad390e7722c53621c8c8d263ade206e912161c7b480a",
        _ => LITERAL_SECRET,
    };
    vec![Secret::new(text).expect("secret")]
}

fn verifier(scheme: &Scheme) -> Verifier {
    scheme.prepare(&secrets(scheme)).expect("keys")
}

fn mac(key: &[u8], parts: &[&[u8]]) -> Vec<u8> {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), &parts.concat()).as_ref().to_vec()
}

/// The first four schemes' headers over a body, signed by ring.
fn signed(body: &[u8]) -> Vec<(Scheme, Headers)> {
    let literal = LITERAL_SECRET.as_bytes();
    let timestamp = TIMESTAMP.as_bytes();
    let plain = hex::encode(mac(literal, &[body])).into_bytes();
    let slack = format!("v0={}", hex::encode(mac(literal, &[b"v0:", timestamp, b":", body]))).into_bytes();
    let svix = mac(KEY_BEHIND_PREFIX, &[ID.as_bytes(), b".", timestamp, b".", body]);
    let svix = format!("v1,{}", STANDARD.encode(svix)).into_bytes();
    let stripe = format!("t={TIMESTAMP},v1={}", hex::encode(mac(literal, &[timestamp, b".", body]))).into_bytes();
    let headers = vec![
        vec![("x-signature", plain)],
        vec![("x-signature", slack), ("x-timestamp", timestamp.to_vec())],
        vec![("svix-id", ID.into()), ("svix-timestamp", timestamp.to_vec()), ("svix-signature", svix)],
        vec![("stripe-signature", stripe)],
    ];
    schemes().into_iter().zip(headers).collect()
}

fn verdict(scheme: &Scheme, headers: &Headers, body: &[u8]) -> Verdict {
    with_request(headers, body, |request| verifier(scheme).verify(request, NOW))
}

fn with_request<T>(headers: &Headers, body: &[u8], then: impl FnOnce(&Request<'_>) -> T) -> T {
    let headers: Vec<(&str, &[u8])> = headers.iter().map(|(name, value)| (*name, value.as_slice())).collect();
    then(&Request { method: "POST", url: None, query: "a=1", path_token: None, headers: &headers, body })
}

fn explanation(scheme: &Scheme, headers: &Headers, body: &[u8], rejection: &Rejection) -> String {
    with_request(headers, body, |request| verifier(scheme).diagnose(request, NOW, rejection))
}

/// Header values that look like signatures, lists of fields and timestamps, and some that look like nothing.
fn header_value() -> impl Strategy<Value = Vec<u8>> {
    let fragment = prop_oneof![
        Just(b"v1,".to_vec()),
        Just(b"v1a,".to_vec()),
        Just(b"t=".to_vec()),
        Just(b"v1=".to_vec()),
        Just(b"v0=".to_vec()),
        Just(b",".to_vec()),
        Just(b" ".to_vec()),
        Just(b"SHA256withRSA".to_vec()),
        Just(b"https://api.paypal.com/v1/notifications/certs/".to_vec()),
        Just(b"algorithm=HMAC_SHA256".to_vec()),
        Just(b"application/x-www-form-urlencoded".to_vec()),
        Just(TIMESTAMP.as_bytes().to_vec()),
        "[0-9a-f]{64}".prop_map(String::into_bytes),
        "[A-Za-z0-9+/]{43}=".prop_map(String::into_bytes),
        "[A-Za-z0-9+/]{86}==".prop_map(String::into_bytes),
        proptest::collection::vec(any::<u8>(), 0..20),
    ];
    proptest::collection::vec(fragment, 0..6).prop_map(|fragments| fragments.concat())
}

fn headers() -> impl Strategy<Value = Headers> {
    let names = prop::sample::select(vec![
        "x-signature",
        "X-Signature",
        "x-timestamp",
        "svix-id",
        "svix-timestamp",
        "svix-signature",
        "webhook-id",
        "webhook-timestamp",
        "webhook-signature",
        "stripe-signature",
        "x-token",
        "x-twilio-signature",
        "x-twilio-webhooks-signature-settings",
        "content-type",
        "paypal-transmission-id",
        "paypal-transmission-time",
        "paypal-transmission-sig",
        "paypal-cert-url",
        "paypal-auth-algo",
    ]);
    proptest::collection::vec((names, header_value()), 0..8)
}

/// Anything, and what looks like bodies that are signed inside.
fn body() -> impl Strategy<Value = Vec<u8>> {
    let fragment = prop::sample::select(vec![
        "{",
        "}",
        "[",
        "]",
        ":",
        ",",
        "\"",
        "\"notificationItems\":[",
        "{\"NotificationRequestItem\":{",
        "\"additionalData\":",
        "{\"hmacSignature\":\"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\"}",
        "\"success\":\"true\"",
        "\"amount\":{\"value\":1,\"currency\":\"EUR\"}",
        "\"Type\":\"Notification\"",
        "\"Message\":\"\"",
        "\"TopicArn\":\"\"",
        "\"SignatureVersion\":\"1\"",
        "\"SigningCertURL\":\"https://sns.eu-west-1.amazonaws.com/a.pem\"",
        "\\u0000",
        "null",
        "1e9",
    ]);
    let fragments = proptest::collection::vec(fragment, 0..12).prop_map(|fragments| fragments.concat().into_bytes());
    prop_oneof![proptest::collection::vec(any::<u8>(), 0..300), fragments]
}

proptest! {
    #[test]
    fn nothing_unsigned_is_accepted(headers in headers(), body in body()) {
        for scheme in schemes() {
            let Verdict::Invalid(rejection) = verdict(&scheme, &headers, &body) else {
                return Err(TestCaseError::fail(format!("accepted by {scheme:?}")));
            };
            prop_assert!(rejection.detail.len() <= Rejection::MAX_DETAIL);
            prop_assert!(rejection.detail.chars().all(|c| !c.is_control()), "{:?}", rejection.detail);
            let explanation = explanation(&scheme, &headers, &body, &rejection);
            prop_assert!(!explanation.contains(&LITERAL_SECRET[..12]), "{explanation}");
        }
    }

    #[test]
    fn what_is_signed_is_accepted_and_no_byte_of_it_may_change(
        body in proptest::collection::vec(any::<u8>(), 0..300),
        at in any::<prop::sample::Index>(),
        flip in 1_u8..,
    ) {
        for (scheme, headers) in signed(&body) {
            prop_assert!(verdict(&scheme, &headers, &body).is_valid(), "{scheme:?}");
            if !body.is_empty() {
                let mut changed = body.clone();
                changed[at.index(body.len())] ^= flip;
                prop_assert!(!verdict(&scheme, &headers, &changed).is_valid(), "{scheme:?}");
            }
            for which in 0..headers.len() {
                let mut changed = headers.clone();
                let value = &mut changed[which].1;
                let at = at.index(value.len());
                value[at] ^= flip;
                prop_assert!(!verdict(&scheme, &changed, &body).is_valid(), "{scheme:?} {changed:?}");
            }
            for which in 0..headers.len() {
                let (mut repeated, mut missing) = (headers.clone(), headers.clone());
                repeated.push(headers[which].clone());
                missing.remove(which);
                prop_assert!(!verdict(&scheme, &repeated, &body).is_valid(), "repeated header: {scheme:?}");
                prop_assert!(!verdict(&scheme, &missing, &body).is_valid(), "missing header: {scheme:?}");
            }
        }
    }

    #[test]
    fn signing_agrees_with_an_independent_signer(body in proptest::collection::vec(any::<u8>(), 0..300)) {
        for (scheme, headers) in signed(&body) {
            let secret = Secret::new(LITERAL_SECRET).expect("secret");
            let added = with_request(&Vec::new(), &body, |request| scheme.sign(&secret, ID, request, NOW)).expect("signed");
            let lower = |(name, value): &(String, String)| (name.to_ascii_lowercase(), value.clone().into_bytes());
            let added: Vec<_> = added.headers.iter().map(lower).collect();
            let expected: Vec<_> = headers.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
            prop_assert_eq!(added, expected, "{:?}", scheme);
        }
    }

    #[test]
    fn a_diagnosis_holds_neither_secret_nor_expected_signature(
        body in "[ -~\u{e4}]{0,60}",
        other in "[ -~]{1,60}",
    ) {
        for ((scheme, expected), (_, given)) in signed(body.as_bytes()).into_iter().zip(signed(other.as_bytes())) {
            let Verdict::Invalid(rejection) = verdict(&scheme, &given, body.as_bytes()) else { continue };
            let explanation = explanation(&scheme, &given, body.as_bytes(), &rejection);
            let signature = expected.iter().find(|(name, _)| name.contains("signature")).expect("signature");
            let tail = String::from_utf8_lossy(&signature.1[signature.1.len() - 20..]).into_owned();
            prop_assert!(!explanation.contains(&tail), "{explanation}");
            prop_assert!(!explanation.contains("dGhpcyBp"), "{explanation}");
        }
    }
}
