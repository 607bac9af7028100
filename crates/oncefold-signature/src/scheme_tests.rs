use super::*;
use crate::mac::{HmacAlgorithm, KeyedMac};
use crate::secret::EmptySecret;
use crate::verdict::RejectionReason;

const REQUEST: Request<'_> =
    Request { method: "POST", url: None, query: "", path_token: None, headers: &[], body: b"anything" };
const NOW: UnixTime = UnixTime::from_secs(0);

#[test]
fn none_accepts_all_and_warns() {
    let verifier = Scheme::None.prepare(&[]).unwrap();
    assert_eq!(verifier.verify(&REQUEST, NOW), Verdict::Valid(Verified { secret_index: None, signed_at_s: None }));
    assert_eq!(verifier.warnings().len(), 1);
    assert!(Scheme::None.prepare(&[Secret::new("secret").unwrap()]).is_err());
}

#[test]
fn secrets_are_trimmed_and_never_shown() {
    assert_eq!(Secret::new(" \t\r\n\u{feff}"), Err(EmptySecret));
    let secret = Secret::new("\u{feff} user:hunter2\r\n").unwrap();
    assert_eq!(secret, Secret::new("user:hunter2").unwrap());
    let verifier = Scheme::Basic.prepare(std::slice::from_ref(&secret)).unwrap();
    assert_eq!(format!("{secret:?} {verifier:?}"), "Secret(…) Verifier(…)");
}

#[test]
fn places_of_credentials_are_known() {
    let token = Scheme::Token(TokenScheme { place: TokenPlace::Path, prefix: String::new() });
    assert_eq!(token.credential_place(), Some(TokenPlace::Path));
    assert_eq!(Scheme::Basic.credential_place(), Some(TokenPlace::Header("Authorization".to_owned())));
    assert_eq!(Scheme::None.credential_place(), None);
}

#[test]
fn details_are_bounded_whatever_the_config_holds() {
    let scheme = Scheme::Hmac(HmacScheme::over_body("ü".repeat(500)));
    let verifier = scheme.prepare(&[Secret::new("a secret of some length").unwrap()]).unwrap();
    let Verdict::Invalid(rejection) = verifier.verify(&REQUEST, NOW) else { panic!("accepted") };
    assert_eq!(rejection.reason, RejectionReason::MissingHeader);
    assert!((290..=Rejection::MAX_DETAIL).contains(&rejection.detail.len()));
    assert!(rejection.detail.ends_with('…'));
}

#[test]
fn reasons_have_names_of_their_own() {
    let names: std::collections::BTreeSet<_> = RejectionReason::ALL.iter().map(|reason| reason.as_str()).collect();
    assert_eq!(names.len(), RejectionReason::ALL.len());
    assert!(names.contains("timestamp_too_old"));
}

#[test]
fn a_part_of_a_tag_is_not_the_tag() {
    let whole = hex::decode("b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7").unwrap();
    let tag = KeyedMac::keyed(HmacAlgorithm::Sha256, &[0x0b; 20]).over(&[b"Hi ", b"There"]);
    assert!(tag.equals(&whole));
    assert!(!tag.equals(&whole[..31]));
    assert!(!tag.equals(&[]));
    assert!(!tag.equals(&[&whole[..], &[0]].concat()));
}
