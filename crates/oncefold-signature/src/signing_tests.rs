use super::*;
use crate::schemes::signed_template::SignedTemplate;

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
