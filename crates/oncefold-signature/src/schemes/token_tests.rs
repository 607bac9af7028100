use super::*;
use crate::verdict::Verdict;

fn verify(
    scheme: &TokenScheme,
    query: &str,
    path_token: Option<&str>,
    headers: &[(&str, &[u8])],
) -> Result<usize, RejectionReason> {
    let secrets = [Secret::new("first token, 16 bytes").unwrap(), Secret::new("second+token").unwrap()];
    let verifier = scheme.prepare(&secrets).unwrap();
    assert_eq!(verifier.warnings().len(), 1);
    let request = Request { method: "POST", url: None, query, path_token, headers, body: b"" };
    match verifier.verify(&request, UnixTime::from_secs(0)) {
        Verdict::Valid(verified) => Ok(verified.secret_index.unwrap()),
        Verdict::Invalid(rejection) => Err(rejection.reason),
    }
}

#[test]
fn in_a_header_with_a_prefix() {
    let scheme = TokenScheme { place: TokenPlace::Header("Authorization".to_owned()), prefix: "Bearer ".to_owned() };
    let with = |values: &[&str]| {
        let headers: Vec<(&str, &[u8])> = values.iter().map(|value| ("authorization", value.as_bytes())).collect();
        verify(&scheme, "", None, &headers)
    };
    assert_eq!(with(&["Bearer second+token"]), Ok(1));
    assert_eq!(with(&["Bearer first token, 16 bytes"]), Ok(0));
    assert_eq!(with(&["Bearer second+toke"]), Err(RejectionReason::WrongToken));
    assert_eq!(with(&["Bearer second+token2"]), Err(RejectionReason::WrongToken));
    assert_eq!(with(&["second+token"]), Err(RejectionReason::MalformedHeader));
    assert_eq!(with(&["Bearer "]), Err(RejectionReason::MissingToken));
    assert_eq!(with(&[]), Err(RejectionReason::MissingHeader));
    assert_eq!(with(&["Bearer second+token", "Bearer second+token"]), Err(RejectionReason::DuplicateHeader));
}

#[test]
fn in_the_query() {
    let scheme = TokenScheme { place: TokenPlace::Query("k&y".to_owned()), prefix: String::new() };
    let with = |query: &str| verify(&scheme, query, None, &[]);
    assert_eq!(with("a=b&k%26y=second%2Btoken"), Ok(1));
    assert_eq!(with("k%26y=first+token,+16%20bytes"), Ok(0));
    assert_eq!(with("k%26y=second+token"), Err(RejectionReason::WrongToken));
    assert_eq!(with("k%26y=second%2Btoken&k%26y=second%2Btoken"), Err(RejectionReason::DuplicateHeader));
    assert_eq!(with("k%26y"), Err(RejectionReason::MissingToken));
    assert_eq!(with(""), Err(RejectionReason::MissingToken));
}

#[test]
fn in_the_path() {
    let scheme = TokenScheme { place: TokenPlace::Path, prefix: String::new() };
    assert_eq!(verify(&scheme, "", Some("second+token"), &[]), Ok(1));
    assert_eq!(verify(&scheme, "", Some("SECOND+TOKEN"), &[]), Err(RejectionReason::WrongToken));
    assert_eq!(verify(&scheme, "", Some(""), &[]), Err(RejectionReason::MissingToken));
    assert_eq!(verify(&scheme, "", None, &[]), Err(RejectionReason::MissingToken));
}

#[test]
fn a_nameless_place_is_refused() {
    let scheme = TokenScheme { place: TokenPlace::Header(String::new()), prefix: String::new() };
    assert!(scheme.prepare(&[Secret::new("token").unwrap()]).is_err());
}
