use super::*;
use crate::scheme::Scheme;
use crate::verdict::Verdict;

/// Twilio's published example (twilio-node, spec/validation.spec.js): auth token 12345.
const URL: &str = "https://mycompany.com/myapp.php?foo=1&bar=2";
const BODY: &[u8] =
    b"CallSid=CA1234567890ABCDE&Caller=%2B14158675309&Digits=1234&From=%2B14158675309&To=%2B18005551212";
const SIGNATURE: &str = "RSOYDt4T1cUTdK1PDd93/VVr8B8=";
/// The same with `:443`, from the same file.
const SIGNATURE_WITH_PORT: &str = "kvajT1Ptam85bY51eRf/AJRuM3w=";

fn verify(scheme: TwilioScheme, url: &str, signature: &str, content_type: &str) -> Result<Verified, Rejection> {
    let headers: [(&str, &[u8]); 2] =
        [("x-twilio-signature", signature.as_bytes()), ("content-type", content_type.as_bytes())];
    let query = url.split_once('?').map_or("", |(_, query)| query);
    let request = Request { method: "POST", url: Some(url), query, path_token: None, headers: &headers, body: BODY };
    let verifier = Scheme::Twilio(scheme).prepare(&[Secret::new("12345").unwrap()]).unwrap();
    match verifier.verify(&request, UnixTime::from_secs(0)) {
        Verdict::Valid(verified) => Ok(verified),
        Verdict::Invalid(rejection) => Err(rejection),
    }
}

const FORM_TYPE: &str = "application/x-www-form-urlencoded; charset=utf-8";

#[test]
fn the_port_does_not_matter() {
    for url in [URL, "https://mycompany.com:443/myapp.php?foo=1&bar=2"] {
        assert!(verify(TwilioScheme::default(), url, SIGNATURE, FORM_TYPE).is_ok());
        assert!(verify(TwilioScheme::default(), url, SIGNATURE_WITH_PORT, FORM_TYPE).is_ok());
    }
    let other = "https://mycompany.com/myapp.php?foo=1";
    assert_eq!(
        verify(TwilioScheme::default(), other, SIGNATURE, FORM_TYPE).unwrap_err().reason,
        RejectionReason::NoMatchingSignature
    );
}

#[test]
fn a_body_that_nothing_signs_is_refused() {
    let rejection = verify(TwilioScheme::default(), URL, SIGNATURE, "application/json").unwrap_err();
    assert_eq!(rejection.reason, RejectionReason::MalformedHeader);
}

#[test]
fn a_pinned_algorithm_cannot_be_downgraded() {
    let pinned = TwilioScheme { algorithm: Some(HmacAlgorithm::Sha256) };
    let rejection = verify(pinned, URL, SIGNATURE, FORM_TYPE).unwrap_err();
    assert!(rejection.detail.contains("takes sha256 only"), "{}", rejection.detail);
    let pinned = TwilioScheme { algorithm: Some(HmacAlgorithm::Sha1) };
    assert!(verify(pinned, URL, SIGNATURE, FORM_TYPE).is_ok());
}
