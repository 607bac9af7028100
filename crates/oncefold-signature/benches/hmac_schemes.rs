//! What a verdict costs over the hash it needs: every scheme on HMAC-SHA-256 verifies a body of 1.5 KiB, beside `hmac`
//! alone (the key set up, the tag compared) over the same bytes. Both see what a delivery brings: ten other headers.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use criterion::{Criterion, criterion_group, criterion_main};
use hmac::{Hmac, KeyInit as _, Mac as _};
use oncefold_signature::{
    HeaderFields, HmacAlgorithm, HmacScheme, KeyEncoding, Request, Scheme, Secret, SignatureEncoding, SignaturePlace,
    SignedTime, StandardWebhooks, StripeScheme, TimestampFormat, TimestampPlace, TwilioScheme, UnixTime,
};
use sha2::Sha256;
use std::hint::black_box;

const NOW: UnixTime = UnixTime::from_secs(1_760_000_000);
const SECRET: &str = "a literal secret of 32 bytes ...";
const HEX: &str = "44782DEF547AAA06C910C43932B1EB0C71FC68D9D0C057550C48EC2ACF6BA056";
const URL: &str = "https://hooks.example/in/shop";
const BODY_LEN: usize = 1536;
const OTHER_HEADERS: [(&str, &str); 10] = [
    ("host", "hooks.example"),
    ("user-agent", "Provider-Webhooks/1.0"),
    ("accept", "*/*"),
    ("accept-encoding", "gzip, deflate"),
    ("content-length", "1536"),
    ("x-forwarded-for", "203.0.113.7"),
    ("x-forwarded-proto", "https"),
    ("x-request-id", "0f8fad5b-d9cb-469f-a165-70867728950e"),
    ("x-topic", "orders/updated"),
    ("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
];

/// A scheme with a secret it takes, and a body as its provider sends it.
struct Subject {
    name: &'static str,
    scheme: Scheme,
    secret: &'static str,
    body: Vec<u8>,
}

/// JSON of line items, filled up to the length.
fn json(start: &str, end: &str) -> Vec<u8> {
    let mut body = start.to_owned();
    body.push_str("\"lines\":[");
    while body.len() + end.len() + 80 < BODY_LEN {
        body.push_str(r#"{"sku":"A-1042","title":"Mug, blue","quantity":2,"price":"12.50"},"#);
    }
    body.push_str("{\"note\":\"");
    while body.len() + end.len() + 4 < BODY_LEN {
        body.push('x');
    }
    body.push_str("\"}]");
    body.push_str(end);
    body.into_bytes()
}

fn order() -> Vec<u8> {
    json(r#"{"id":820982911946154508,"type":"order.updated","updated_at":"2026-11-30T08:53:20Z","#, "}")
}

fn form() -> Vec<u8> {
    let mut body = "MessageSid=SM1&MessageStatus=sent&To=%2B420123456&From=%2B420654321&Body=".to_owned();
    while body.len() < BODY_LEN {
        body.push_str("Hello+there%21+");
    }
    body.truncate(BODY_LEN);
    body.into_bytes()
}

/// Adyen's signature stands in the body, and covers eight of its fields.
fn adyen() -> Vec<u8> {
    let signed = "P1::Shop:REF:1:2500:EUR:AUTHORISATION:true";
    let key: Vec<u8> = (0..32).map(|at| u8::from_str_radix(&HEX[2 * at..2 * at + 2], 16).unwrap()).collect();
    let mut mac = Hmac::<Sha256>::new_from_slice(&key).unwrap();
    mac.update(signed.as_bytes());
    let signature = STANDARD.encode(mac.finalize().into_bytes());
    let start = r#"{"live":"false","notificationItems":[{"NotificationRequestItem":{"amount":{"currency":"EUR","value":2500},"eventCode":"AUTHORISATION","eventDate":"2026-11-30T08:53:20+01:00","merchantAccountCode":"Shop","merchantReference":"REF:1","pspReference":"P1","success":"true","paymentMethod":"visa","additionalData":{"cardSummary":"1142","hmacSignature":"SIGNATURE","#;
    let mut body = start.replace("SIGNATURE", &signature);
    for at in 0.. {
        if body.len() + 40 > BODY_LEN {
            break;
        }
        body.push_str(&format!("\"field.number{at}\":\"a value\","));
    }
    body.push_str("\"last\":\"\"}}}]}");
    body.into_bytes()
}

fn over(signed: &str, encoding: SignatureEncoding, time: Option<SignedTime>) -> Scheme {
    let signature = SignaturePlace { encoding, ..SignaturePlace::header("X-Signature") };
    let signed = signed.parse().unwrap();
    Scheme::Hmac(HmacScheme { signature, signed, time, ..HmacScheme::over_body("") })
}

fn subjects() -> Vec<Subject> {
    let in_header = SignedTime::header("X-Timestamp");
    let in_body = SignedTime {
        place: TimestampPlace::Body("/at".to_owned()),
        format: TimestampFormat::UnixMillis,
        ..in_header.clone()
    };
    let fields = HmacScheme {
        signature: SignaturePlace {
            fields: Some(HeaderFields { separator: ';', signature: "h1".to_owned() }),
            ..SignaturePlace::header("Paddle-Signature")
        },
        signed: "{timestamp}:{body}".parse().unwrap(),
        time: Some(SignedTime { place: TimestampPlace::Field("ts".to_owned()), ..in_header.clone() }),
        ..HmacScheme::over_body("")
    };
    let (hex, base64) = (SignatureEncoding::Hex, SignatureEncoding::Base64);
    let of = |name, scheme| Subject { name, scheme, secret: SECRET, body: order() };
    let timed = json(r#"{"id":1,"type":"Issue","at":1760000000000,"#, "}");
    let literal = StandardWebhooks { key_encoding: KeyEncoding::Literal, ..StandardWebhooks::default() };
    let sha256 = TwilioScheme { algorithm: Some(HmacAlgorithm::Sha256) };
    vec![
        of("hmac, body, hex (github)", over("{body}", hex, None)),
        of("hmac, body, base64 (shopify)", over("{body}", base64, None)),
        of("hmac, header time (slack)", over("v0:{timestamp}:{body}", hex, Some(in_header.clone()))),
        of("hmac, url (square)", over("{url}{body}", base64, None)),
        of("hmac, method, url, time (hubspot)", over("{method}{url}{body}{timestamp}", base64, Some(in_header))),
        of("hmac, fields (paddle)", Scheme::Hmac(fields)),
        Subject { body: timed, ..of("hmac, time in the body (linear)", over("{body}", hex, Some(in_body))) },
        of("standard-webhooks", Scheme::StandardWebhooks(literal)),
        of("stripe", Scheme::Stripe(StripeScheme::default())),
        Subject { body: form(), ..of("twilio, form, sha256", Scheme::Twilio(sha256)) },
        Subject { body: adyen(), secret: HEX, ..of("adyen", Scheme::Adyen) },
    ]
}

fn bench(criterion: &mut Criterion) {
    let keyed = Hmac::<Sha256>::new_from_slice(SECRET.as_bytes()).unwrap();
    for subject in subjects() {
        let Subject { name, scheme, secret, body } = &subject;
        let secret = Secret::new(secret).unwrap();
        let verifier = scheme.prepare(std::slice::from_ref(&secret)).unwrap();
        let content_type =
            if body.starts_with(b"{") { "application/json" } else { "application/x-www-form-urlencoded" };
        let mut headers: Vec<(&str, &[u8])> = OTHER_HEADERS.iter().map(|(n, v)| (*n, v.as_bytes())).collect();
        headers.push(("content-type", content_type.as_bytes()));
        let unsigned = Request { method: "POST", url: Some(URL), query: "", path_token: None, headers: &headers, body };
        // Where only the provider can sign, the signature is in the body.
        let added = scheme.sign(&secret, "msg_1", &unsigned, NOW).map(|signed| signed.headers).unwrap_or_default();
        let all: Vec<_> =
            headers.iter().copied().chain(added.iter().map(|(n, v)| (n.as_str(), v.as_bytes()))).collect();
        let request = Request { headers: &all, ..unsigned };
        assert!(verifier.verify(&request, NOW).is_valid(), "{name}");

        let tag = |body: &[u8]| keyed.clone().chain_update(body);
        let expected = tag(body).finalize().into_bytes();
        let mut group = criterion.benchmark_group(*name);
        group.bench_function("bare hmac", |b| {
            b.iter(|| tag(black_box(body)).verify_slice(black_box(&expected)).is_ok())
        });
        group.bench_function("verify", |b| b.iter(|| verifier.verify(black_box(&request), NOW).is_valid()));
        group.finish();
    }
}

criterion_group!(benches, bench);
criterion_main!(benches);
