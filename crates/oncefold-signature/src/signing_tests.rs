use super::*;
use crate::schemes::ed25519::Ed25519Scheme;
use crate::schemes::signature_place::{HeaderFields, SignaturePlace};
use crate::schemes::signed_template::SignedTemplate;
use crate::schemes::signed_time::{SignedTime, TimestampFormat};

const NOW: UnixTime = UnixTime::from_secs(1_000);
const REQUEST: Request<'_> =
    Request { method: "POST", url: None, query: "", path_token: None, headers: &[], body: b"{}" };

fn signed(scheme: &Scheme, secret: &str) -> Signed {
    scheme.sign(&Secret::new(secret).unwrap(), "msg_1", &REQUEST, NOW).unwrap()
}

fn in_place(place: TokenPlace, prefix: &str) -> Scheme {
    Scheme::Token(TokenScheme { place, prefix: prefix.to_owned() })
}

/// What was added verifies, and the place it was added to is as the scheme says.
fn verifies(scheme: &Scheme, secret: &str, signed: &Signed) -> bool {
    let headers: Vec<_> = signed.headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes())).collect();
    let query = signed.query.as_deref().unwrap_or_default();
    let request = Request { headers: &headers, query, path_token: signed.path_token.as_deref(), ..REQUEST };
    scheme.prepare(&[Secret::new(secret).unwrap()]).unwrap().verify(&request, NOW).is_valid()
}

#[test]
fn tokens_and_credentials_verify() {
    let secret = "a:b+c &=ä/?#";
    let bearer = in_place(TokenPlace::Header("Authorization".to_owned()), "Bearer ");
    let query = in_place(TokenPlace::Query("k y".to_owned()), "");
    for scheme in [bearer, query, in_place(TokenPlace::Path, "x-"), Scheme::Basic] {
        assert!(verifies(&scheme, secret, &signed(&scheme, secret)), "{scheme:?}");
    }
    let basic = signed(&Scheme::Basic, "Aladdin:open sesame");
    assert_eq!(basic.headers, [("Authorization".to_owned(), "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==".to_owned())]);
    assert_eq!(format!("{basic:?}"), "Signed { headers: [\"Authorization\"], .. }");
}

#[test]
fn what_cannot_sign_is_told() {
    let secret = |text: &str| Secret::new(text).unwrap();
    let svix = Scheme::StandardWebhooks(StandardWebhooks::default());
    let public = secret("whpk_1SiA4o9hyqTCpIqC5V9HUakiiaeACeqfZTInDBbOir4=");
    assert_eq!(svix.sign(&public, "msg_1", &REQUEST, NOW), Err(SignError::PublicKey));
    let shared = secret("whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD");
    assert!(matches!(svix.sign(&shared, "msg.1", &REQUEST, NOW), Err(SignError::Incomplete(_))));
    assert!(matches!(svix.sign(&secret("whsec_AAAA"), "msg_1", &REQUEST, NOW), Err(SignError::Key(_))));
    let signed: SignedTemplate = "{url}{body}".parse().unwrap();
    let url = Scheme::Hmac(HmacScheme { signed, ..HmacScheme::over_body("x-sig") });
    assert!(matches!(url.sign(&shared, "msg_1", &REQUEST, NOW), Err(SignError::Incomplete(_))));
}

#[test]
fn fields_and_instants_are_written_as_they_are_read() {
    let fields = HmacScheme {
        signature: SignaturePlace {
            fields: Some(HeaderFields { separator: ';', signature: "h1".to_owned() }),
            ..SignaturePlace::header("Paddle-Signature")
        },
        signed: "{timestamp}:{body}".parse().unwrap(),
        time: Some(SignedTime { place: TimestampPlace::Field("ts".to_owned()), ..SignedTime::header("") }),
        ..HmacScheme::over_body("")
    };
    let instants = HmacScheme {
        signed: "{timestamp}{body}".parse().unwrap(),
        time: Some(SignedTime { format: TimestampFormat::Rfc3339, ..SignedTime::header("x-time") }),
        ..HmacScheme::over_body("x-sig")
    };
    let added = signed(&Scheme::Hmac(fields.clone()), "a literal secret");
    assert!(added.headers[0].1.starts_with("ts=1000;h1="), "{}", added.headers[0].1);
    for scheme in [Scheme::Hmac(fields), Scheme::Hmac(instants)] {
        assert!(verifies(&scheme, "a literal secret", &signed(&scheme, "a literal secret")), "{scheme:?}");
    }
}

#[test]
fn a_json_body_to_twilio_is_bound_by_its_hash_in_the_url() {
    for algorithm in [None, Some(HmacAlgorithm::Sha256)] {
        let scheme = Scheme::Twilio(TwilioScheme { algorithm });
        let secret = Secret::new("12345").unwrap();
        let request = Request { url: Some("https://shop.example/in/twilio"), ..REQUEST };
        let added = scheme.sign(&secret, "", &request, NOW).unwrap();
        let headers: Vec<_> = added.headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes())).collect();
        // `printf '{}' | sha256sum`
        let hash = "bodySHA256=44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a";
        assert_eq!(added.query.as_deref(), Some(hash));
        let received = Request { headers: &headers, query: hash, ..request };
        let verifier = scheme.prepare(&[secret]).unwrap();
        assert!(verifier.verify(&received, NOW).is_valid());
        assert!(!verifier.verify(&Request { body: b"{} ", ..received }, NOW).is_valid());
    }
}

#[test]
fn what_only_the_provider_can_sign_is_told() {
    let key = Secret::new("11e9c531075802432bb1ad390e7722c53621c8c8d263ade206e912161c7b480a").unwrap();
    let ed25519 = Scheme::Ed25519(Ed25519Scheme {
        signature: SignaturePlace::header("x-sig"),
        key_encoding: KeyEncoding::Hex,
        signed: SignedTemplate::body_only(),
        time: None,
    });
    for scheme in [ed25519, Scheme::Adyen] {
        assert_eq!(scheme.sign(&key, "", &REQUEST, NOW), Err(SignError::ProviderOnly(scheme.name())));
    }
}
