use super::*;
use crate::scheme::Scheme;
use crate::verdict::{RejectionReason, Verdict};
use ring::signature::{Ed25519KeyPair, KeyPair as _};

fn pair() -> Ed25519KeyPair {
    Ed25519KeyPair::from_seed_unchecked(&[7; 32]).unwrap()
}

fn scheme() -> Ed25519Scheme {
    Ed25519Scheme {
        signature: SignaturePlace::header("X-Signature-Ed25519"),
        key_encoding: KeyEncoding::Hex,
        signed: "{timestamp}{body}".parse().unwrap(),
        time: Some(SignedTime::header("X-Signature-Timestamp")),
    }
}

fn verify(secrets: &[&str], signature: &str, at_s: i64) -> Result<Verified, Rejection> {
    let secrets: Vec<_> = secrets.iter().map(|text| Secret::new(text).unwrap()).collect();
    let headers: [(&str, &[u8]); 2] =
        [("x-signature-ed25519", signature.as_bytes()), ("x-signature-timestamp", b"1000")];
    let request = Request { method: "POST", url: None, query: "", path_token: None, headers: &headers, body: b"{}" };
    match Scheme::Ed25519(scheme()).prepare(&secrets).unwrap().verify(&request, UnixTime::from_secs(at_s)) {
        Verdict::Valid(verified) => Ok(verified),
        Verdict::Invalid(rejection) => Err(rejection),
    }
}

#[test]
fn the_matching_key_is_named_and_the_time_is_bounded() {
    let signature = hex::encode(pair().sign(b"1000{}"));
    let (right, other) = (hex::encode(pair().public_key()), "00".repeat(32));
    assert_eq!(
        verify(&[&other, &right], &signature, 1_000),
        Ok(Verified { secret_index: Some(1), signed_at_s: Some(1_000) })
    );
    assert!(verify(&[&right], &signature.to_ascii_uppercase(), 1_000).is_ok());
    assert_eq!(verify(&[&right], &signature, 1_301).unwrap_err().reason, RejectionReason::TimestampTooOld);
    assert_eq!(verify(&[&other], &signature, 1_000).unwrap_err().reason, RejectionReason::NoMatchingSignature);
    assert_eq!(verify(&[&right], &signature[1..], 1_000).unwrap_err().reason, RejectionReason::MalformedSignature);
}

#[test]
fn keys_are_32_bytes() {
    let problem = |text: &str| scheme().prepare(&[Secret::new(text).unwrap()]).unwrap_err().to_string();
    assert!(problem("00ff").starts_with("secrets[0]: is no ed25519 public key"));
    assert!(problem(&"zz".repeat(32)).contains("32 bytes in hex"));
}
