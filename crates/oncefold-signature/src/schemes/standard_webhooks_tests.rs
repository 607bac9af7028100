use super::*;
use crate::verdict::Verdict;

/// A known answer of the standard-webhooks Rust library (`test_sign`).
const SECRET: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";
const BODY: &[u8] = br#"{"email":"test@example.com","username":"test_user"}"#;
const SIGNATURE: &str = "v1,tZ1I4/hDygAJgO5TYxiSd6Sd0kDW6hPenDe+bTa3Kkw=";
const SIGNED_AT_S: i64 = 1_649_367_553;
/// The other kind of key, from the Svix server's tests.
const PUBLIC: &str = "whpk_1SiA4o9hyqTCpIqC5V9HUakiiaeACeqfZTInDBbOir4=";

fn headers<'a>(prefix: [&'a str; 3], signature: &'a str) -> [(&'a str, &'a [u8]); 3] {
    [(prefix[0], b"msg_27UH4WbU6Z5A5EzD8u03UvzRbpk"), (prefix[1], b"1649367553"), (prefix[2], signature.as_bytes())]
}

const WEBHOOK: [&str; 3] = ["webhook-id", "webhook-timestamp", "webhook-signature"];
const SVIX: [&str; 3] = ["svix-id", "svix-timestamp", "svix-signature"];

fn verify(scheme: StandardWebhooks, secrets: &[&str], headers: &[(&str, &[u8])], now: UnixTime) -> Verdict {
    let secrets: Vec<_> = secrets.iter().map(|text| Secret::new(text).unwrap()).collect();
    let request = Request { method: "POST", url: None, query: "", path_token: None, headers, body: BODY };
    scheme.prepare(&secrets).unwrap().verify(&request, now)
}

fn reason(verdict: Verdict) -> RejectionReason {
    match verdict {
        Verdict::Valid(verified) => panic!("accepted: {verified:?}"),
        Verdict::Invalid(rejection) => rejection.reason,
    }
}

const NOW: UnixTime = UnixTime::from_secs(SIGNED_AT_S);

#[test]
fn mixed_keys_name_the_one_that_fits() {
    let verdict = verify(StandardWebhooks::default(), &[PUBLIC, SECRET], &headers(WEBHOOK, SIGNATURE), NOW);
    assert_eq!(verdict, Verdict::Valid(Verified { secret_index: Some(1), signed_at_s: Some(SIGNED_AT_S) }));
}

#[test]
fn one_header_family_has_to_be_complete() {
    let svix = StandardWebhooks::default();
    let webhook = StandardWebhooks { headers: HeaderFamily::Webhook, ..svix };
    assert!(verify(svix, &[SECRET], &headers(SVIX, SIGNATURE), NOW).is_valid());
    assert!(verify(svix, &[SECRET], &headers(WEBHOOK, SIGNATURE), NOW).is_valid());
    assert!(verify(webhook, &[SECRET], &headers(WEBHOOK, SIGNATURE), NOW).is_valid());
    let svix_only = verify(webhook, &[SECRET], &headers(SVIX, SIGNATURE), NOW);
    assert_eq!(reason(svix_only), RejectionReason::MissingHeader);
    let mut with_unsigned_id = headers(WEBHOOK, SIGNATURE).to_vec();
    with_unsigned_id.push(("svix-id", b"msg_forged"));
    assert_eq!(reason(verify(svix, &[SECRET], &with_unsigned_id, NOW)), RejectionReason::MissingHeader);
}

#[test]
fn whole_seconds_count_at_both_ends() {
    let at = |offset_us: i64| {
        let now = UnixTime::from_micros(NOW.as_micros() + offset_us);
        verify(StandardWebhooks::default(), &[SECRET], &headers(WEBHOOK, SIGNATURE), now)
    };
    assert!(at(300_999_999).is_valid());
    assert_eq!(reason(at(301_000_000)), RejectionReason::TimestampTooOld);
    assert!(at(-300_000_000).is_valid());
    assert_eq!(reason(at(-300_000_001)), RejectionReason::TimestampInFuture);
}

#[test]
fn ids_that_make_the_signed_text_ambiguous_are_refused() {
    let mut dotted = headers(WEBHOOK, SIGNATURE);
    dotted[0].1 = b"msg_x.1649367553";
    assert_eq!(reason(verify(StandardWebhooks::default(), &[SECRET], &dotted, NOW)), RejectionReason::MalformedHeader);
    dotted[0].1 = b"";
    assert_eq!(reason(verify(StandardWebhooks::default(), &[SECRET], &dotted, NOW)), RejectionReason::MalformedHeader);
}

#[test]
fn weak_and_wrong_keys_are_refused() {
    let problem =
        |text: &str| StandardWebhooks::default().prepare(&[Secret::new(text).unwrap()]).unwrap_err().to_string();
    assert!(problem("whsec_").contains("0 bytes"));
    assert!(problem("whsec_AAAAAAAAAAAAAAAAAAAA").contains("15 bytes"));
    assert!(problem("whsec_not base64").contains("is not base64"));
    assert!(problem("whpk_AAAA").contains("32 bytes"));
    assert!(
        problem("whsk_6Xb/dCcHpPea21PS1N9VY/NZW723CEc77N4rJCubMbfVKIDij2HKpMKkioLlX0dRqSKJp4AJ6p9lMicMFs6Kvg==")
            .contains("private")
    );
    assert!(StandardWebhooks::default().prepare(&[]).is_err());
}

#[test]
fn literal_keys_are_taken_with_their_prefix() {
    // printf 'msg_27UH4WbU6Z5A5EzD8u03UvzRbpk.1649367553.BODY' | openssl dgst -sha256 -hmac SECRET -binary | base64
    const LITERAL: &str = "v1,n6rJjo/CnEaFyJ+uWWflwGkHSGocTY6bAD6ImjhpG8E=";
    let literal = StandardWebhooks { key_encoding: KeyEncoding::Literal, ..StandardWebhooks::default() };
    assert!(verify(literal, &[SECRET], &headers(WEBHOOK, LITERAL), NOW).is_valid());
    assert!(!verify(StandardWebhooks::default(), &[SECRET], &headers(WEBHOOK, LITERAL), NOW).is_valid());
}

#[test]
fn ed25519_signatures_are_bounded() {
    let one = format!("v1a,{}== ", "A".repeat(86));
    let many = one.repeat(1_000);
    let verdict = verify(StandardWebhooks::default(), &[PUBLIC], &headers(WEBHOOK, &many), NOW);
    assert_eq!(reason(verdict), RejectionReason::NoMatchingSignature);
}
