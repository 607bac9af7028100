use super::*;

/// `printf '1000.{}' | openssl dgst -sha256 -hmac 'whsec_literal_secret'`
const SIGNATURE: &str = "daa2a441c55508afc079459881f9710863a9a46aeb601f53d8ae49f2e4220657";

fn reason(header: &str, now_s: i64) -> Result<Verified, RejectionReason> {
    let secrets = [Secret::new("whsec_another_secret").unwrap(), Secret::new("whsec_literal_secret").unwrap()];
    let verifier = StripeScheme::default().prepare(&secrets).unwrap();
    let headers: [(&str, &[u8]); 1] = [("stripe-signature", header.as_bytes())];
    let request = Request { method: "POST", url: None, query: "", path_token: None, headers: &headers, body: b"{}" };
    match verifier.verify(&request, UnixTime::from_secs(now_s)) {
        crate::verdict::Verdict::Valid(verified) => Ok(verified),
        crate::verdict::Verdict::Invalid(rejection) => Err(rejection.reason),
    }
}

#[test]
fn the_second_secret_and_the_second_signature_may_match() {
    let header = format!("t=1000,v0=abc,v1={},v1={SIGNATURE}", "0".repeat(64));
    assert_eq!(reason(&header, 1_000), Ok(Verified { secret_index: Some(1), signed_at_s: Some(1_000) }));
}

#[test]
fn the_future_is_bounded_as_the_past_is() {
    let header = format!("t=1000,v1={SIGNATURE}");
    assert!(reason(&header, 700).is_ok());
    assert_eq!(reason(&header, 699), Err(RejectionReason::TimestampInFuture));
    assert!(reason(&header, 1_300).is_ok());
    assert_eq!(reason(&header, 1_301), Err(RejectionReason::TimestampTooOld));
}

#[test]
fn a_second_t_is_refused_even_if_it_is_the_same() {
    let header = format!("t=1000,t=1000,v1={SIGNATURE}");
    assert_eq!(reason(&header, 1_000), Err(RejectionReason::DuplicateHeader));
}

#[test]
fn malformed_fields_are_told_apart() {
    assert_eq!(reason("t=1000", 1_000), Err(RejectionReason::MalformedHeader));
    assert_eq!(reason(&format!("v1={SIGNATURE}"), 1_000), Err(RejectionReason::MalformedHeader));
    assert_eq!(reason(&format!("t=1000abc,v1={SIGNATURE}"), 1_000), Err(RejectionReason::MalformedTimestamp));
    assert_eq!(reason(&format!("t=1000,v1={SIGNATURE}=junk"), 1_000), Err(RejectionReason::MalformedSignature));
    assert_eq!(reason(&format!("t=1000,v1={}", "0".repeat(64)), 1_000), Err(RejectionReason::NoMatchingSignature));
}
