use super::*;
use crate::verdict::Verdict;

fn verify(value: &str) -> Result<usize, RejectionReason> {
    let secrets = [Secret::new("test:123£").unwrap(), Secret::new("Aladdin:open sesame").unwrap()];
    let headers: [(&str, &[u8]); 1] = [("authorization", value.as_bytes())];
    let request = Request { method: "POST", url: None, query: "", path_token: None, headers: &headers, body: b"" };
    match prepare(&secrets).unwrap().verify(&request, UnixTime::from_secs(0)) {
        Verdict::Valid(verified) => Ok(verified.secret_index.unwrap()),
        Verdict::Invalid(rejection) => Err(rejection.reason),
    }
}

#[test]
fn the_examples_of_rfc_7617() {
    assert_eq!(verify("Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="), Ok(1));
    assert_eq!(verify("Basic dGVzdDoxMjPCow=="), Ok(0));
    assert_eq!(verify("bAsIc QWxhZGRpbjpvcGVuIHNlc2FtZQ=="), Ok(1));
}

#[test]
fn what_is_not_basic_is_refused() {
    assert_eq!(verify("Basic QWxhZGRpbjpvcGVuIHNlc2FtZg=="), Err(RejectionReason::WrongToken));
    assert_eq!(verify("Basic"), Err(RejectionReason::MalformedHeader));
    assert_eq!(verify("Basic ???"), Err(RejectionReason::MalformedHeader));
    assert_eq!(verify("Bearer QWxhZGRpbjpvcGVuIHNlc2FtZQ=="), Err(RejectionReason::MalformedHeader));
    assert_eq!(verify("Basic "), Err(RejectionReason::WrongToken));
}

#[test]
fn secrets_are_user_and_password() {
    let problem = |text: &str| prepare(&[Secret::new(text).unwrap()]).unwrap_err().to_string();
    assert!(problem("nocolon").contains("user:password"));
    assert!(problem("user:").contains("empty"));
}
