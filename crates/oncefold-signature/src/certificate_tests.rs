//! The chain in testdata is made by openssl: a root, and a leaf for messageverificationcerts.paypal.com and
//! sns.amazonaws.com, valid from 2026-11-30 to 2125. Its keys are gone; what it signed stands below.

use super::*;
use crate::request::Request;
use crate::scheme::{Scheme, Verifier};
use crate::schemes::paypal::PayPalScheme;
use crate::schemes::sns::SnsScheme;
use crate::secret::Secret;
use crate::verdict::{RejectionReason, Verdict};

const CHAIN: &[u8] = include_bytes!("testdata/chain.pem");
const ROOT: &[u8] = include_bytes!("testdata/root.pem");
const NOW: UnixTime = UnixTime::from_secs(1_800_000_000);

fn roots(pem: &[u8]) -> TrustRoots {
    let der: Vec<_> = CertificateDer::pem_slice_iter(pem).map(Result::unwrap).collect();
    TrustRoots::of(der.iter().map(AsRef::as_ref))
}

fn chained(
    pem: &[u8],
    trusted: &TrustRoots,
    name: &str,
    now: UnixTime,
) -> Result<SigningCertificate, CertificateError> {
    SigningCertificate::chained(pem, trusted, &["other.example".to_owned(), name.to_owned()], now)
}

#[test]
fn a_fetched_certificate_has_to_lead_to_a_root_for_its_name_in_its_time() {
    let (trusted, paypal) = (roots(ROOT), "messageverificationcerts.paypal.com");
    assert_eq!(chained(CHAIN, &trusted, paypal, NOW), SigningCertificate::given(CHAIN));
    let untrusted = |result| matches!(result, Err(CertificateError::Untrusted(_)));
    assert!(untrusted(chained(CHAIN, &roots(b""), paypal, NOW)));
    assert!(untrusted(chained(CHAIN, &trusted, paypal, UnixTime::from_secs(1_700_000_000))));
    assert!(untrusted(chained(CHAIN, &trusted, paypal, UnixTime::from_secs(5_000_000_000))));
    // A root is no signer of deliveries.
    assert!(untrusted(chained(ROOT, &trusted, paypal, NOW)));
    let wrong_name = chained(CHAIN, &trusted, "paypal.com", NOW);
    assert_eq!(wrong_name, Err(CertificateError::WrongName("other.example, paypal.com".to_owned())));
    for pem in [&b""[..], b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", &CHAIN[..200]] {
        assert_eq!(chained(pem, &trusted, paypal, NOW), Err(CertificateError::NotPem));
    }
}

const PAYPAL_BODY: &str = r#"{"id":"WH-1","amount":"25.00"}"#;
/// `id-1|2025-10-09T08:53:20Z|1JE4291016473214C|3027061028`, RSA over SHA-256.
const PAYPAL_SIGNATURE: &str = "oPbhQG94fVuxh7Da20G+JiCqlUebN+eNd+Os9la+JE4Plle8m7S5IMXnA040LFFp670kdP37MGp9ePCLwQCBtqJPwTsThNHgb1JlDpc3YRRoOZQmQ4jit0UZfrookxBXiBFAdYuRn1G0yJsNNbpfdEhzkBFG5LBnBia7TaePJKZM77cWdA4chnFBBhriJ3nt8tTzKdFdXapKfTvkx+qbqz2D4CEXMRh44e8kHz30WKrC4//wq00WGwJ5AVSPGg5qdoOFTxhUoliFWAL9HZk4TFNBDo3YokOdV9xYMIMXO+inYzwjUZcz5aScKI7d8zYuAk4wQfnfqArUdrZzH8GUCQ==";
const PAYPAL_URL: &str = "https://api.paypal.com/v1/notifications/certs/CERT-1";

fn with_paypal<T>(url: &str, body: &str, then: impl FnOnce(&Request<'_>) -> T) -> T {
    let headers: [(&str, &[u8]); 5] = [
        ("paypal-transmission-id", b"id-1"),
        ("paypal-transmission-time", b"2025-10-09T08:53:20Z"),
        ("paypal-transmission-sig", PAYPAL_SIGNATURE.as_bytes()),
        ("paypal-cert-url", url.as_bytes()),
        ("paypal-auth-algo", b"SHA256withRSA"),
    ];
    let body = body.as_bytes();
    then(&Request { method: "POST", url: None, query: "", path_token: None, headers: &headers, body })
}

fn paypal(certificates: Vec<SigningCertificate>) -> Verifier {
    let ids = ["0AB00000000000000", "1JE4291016473214C"].map(|id| Secret::new(id).unwrap());
    Scheme::PayPal(PayPalScheme { certificates }).prepare(&ids).unwrap()
}

fn reason(verdict: Verdict) -> RejectionReason {
    match verdict {
        Verdict::Valid(verified) => panic!("accepted: {verified:?}"),
        Verdict::Invalid(rejection) => rejection.reason,
    }
}

#[test]
fn a_paypal_delivery_names_the_certificate_that_it_needs() {
    let certificate = SigningCertificate::given(CHAIN).unwrap();
    let fetching = paypal(vec![]);
    with_paypal(PAYPAL_URL, PAYPAL_BODY, |request| {
        assert_eq!(reason(fetching.verify(request, NOW)), RejectionReason::UntrustedCertificate);
        let needed = fetching.certificate_needed(request).unwrap();
        assert_eq!(
            (needed.url.as_ref(), needed.names.as_slice()),
            (PAYPAL_URL, &["messageverificationcerts.paypal.com".to_owned()][..])
        );
        let Verdict::Valid(verified) = fetching.verify_with(request, NOW, &certificate) else { panic!("refused") };
        assert_eq!(verified.secret_index, Some(1));
        let given = paypal(vec![certificate.clone()]);
        assert!(given.verify(request, NOW).is_valid());
        assert_eq!(given.certificate_needed(request), None);
    });
    with_paypal(PAYPAL_URL, "{}", |request| {
        assert_eq!(reason(fetching.verify_with(request, NOW, &certificate)), RejectionReason::NoMatchingSignature);
    });
}

#[test]
fn nothing_is_asked_for_at_other_hosts_than_paypal() {
    let certificate = SigningCertificate::given(CHAIN).unwrap();
    let (fetching, given) = (paypal(vec![]), paypal(vec![certificate]));
    for url in [
        "http://api.paypal.com/v1/notifications/certs/CERT-1",
        "https://api.paypal.com.attacker.example/v1/notifications/certs/CERT-1",
        "https://api.paypal.com@attacker.example/v1/notifications/certs/CERT-1",
        "https://attacker.example/v1/notifications/certs/CERT-1",
        "https://api.paypal.com:8443/v1/notifications/certs/CERT-1",
        "https://api.paypal.com/v1/notifications/certs/../../CERT-1",
        "https://api.paypal.com/v1/notifications/certs/CERT-1?to=attacker.example",
        "https://api.paypal.com/v1/notifications/certs/CERT-1#x",
        "https://api.paypal.com/v1/notifications/certs/",
        "CERT-1",
    ] {
        with_paypal(url, PAYPAL_BODY, |request| {
            assert_eq!(fetching.certificate_needed(request), None, "{url}");
            assert_eq!(reason(given.verify(request, NOW)), RejectionReason::UntrustedUrl, "{url}");
        });
    }
}

const SNS_URL: &str = "https://sns.eu-west-1.amazonaws.com/SimpleNotificationService-1.pem";
/// Signature version 1, RSA over SHA-1, with a subject.
const SNS_NOTIFICATION: &str = r#"{"Type":"Notification","MessageId":"m-1","TopicArn":"arn:aws:sns:eu-west-1:1:orders","Subject":"sub","Message":"hello","Timestamp":"2025-10-09T08:53:20.417Z","SignatureVersion":"1","SigningCertURL":"https://sns.eu-west-1.amazonaws.com/SimpleNotificationService-1.pem","Signature":"qApmJBdnK3mcuyPmGFFVYSW3X3dIYK9m9ulTTtH94xbAoZLaMwKFLsTMqMNQ5rDd7xwssDkOJ4Ityt/YV+/rBzGRVeUdo74s9jOl5CFSFQy/wl9irJOTAkLlhw+xfnargFuhthaDVLQkHp3Lp6jYyrx8u9NSoA+VfmikDlybNzYBQZAi7u3plgxO0ETABRSP3sS2QG8UjIx25sj2YnHmiAr/rWD823pTLu4O3r2p/pbFU7y5bEzvHnw3n2SSAAYPld6mqcsxc3/HfwCLQwEu/u3DLBeSeHh8d6KUWBQcl2cimavcBZ9CeP28x0aoek0CcxB64eeBMvIAkg2nUfMpmA=="}"#;
/// Signature version 2, RSA over SHA-256.
const SNS_CONFIRMATION: &str = r#"{"Type":"SubscriptionConfirmation","MessageId":"m-1","Token":"t0","TopicArn":"arn:aws:sns:eu-west-1:1:orders","Message":"confirm","SubscribeURL":"https://sns.eu-west-1.amazonaws.com/?Action=ConfirmSubscription","Timestamp":"2025-10-09T08:53:20.417Z","SignatureVersion":"2","SigningCertURL":"https://sns.eu-west-1.amazonaws.com/SimpleNotificationService-1.pem","Signature":"UYzEEPjHXhB9q8mefGQA0yt29KR7LpnipZBjbGTCqg4ds2oExtd1+gBrjvLoKNpyLVW3xg3BvDZ9LhNfyCOFbn6kaPG58CZhk0UDon+Y02ib+gLl+SzkhUwlHiSXZCZ6JRWhQFS90nFdqMBdO1az71ZN76/RCJ1D8RQrAPpexNmXxXzvRmlWNdI6Xslb3w9T38mrJUUKb+najTFukkhHYOrMmDaDNzxvj2rYatVsg6o3bNca3HcptYl/6XDnTbtJRdFfx8HtfuQtieyd3e2UrEVRPbf0PhfiUdY//1hS/DYEv1fsfZ4eBa5x44oKyHw369hzTzA+sAiSUnKhjX/QPg=="}"#;

fn sns(body: &str, topics: &[&str]) -> Verdict {
    let certificates = vec![SigningCertificate::given(CHAIN).unwrap()];
    let topics = topics.iter().map(|topic| (*topic).to_owned()).collect();
    let verifier = Scheme::Sns(SnsScheme { topics, certificates }).prepare(&[]).unwrap();
    let body = body.as_bytes();
    verifier.verify(&Request { method: "POST", url: None, query: "", path_token: None, headers: &[], body }, NOW)
}

#[test]
fn both_versions_of_sns_signatures_are_taken_of_listed_topics_only() {
    for body in [SNS_NOTIFICATION, SNS_CONFIRMATION] {
        assert!(sns(body, &[]).is_valid());
        assert!(sns(body, &["arn:aws:sns:eu-west-1:1:orders"]).is_valid());
        assert_eq!(reason(sns(body, &["arn:aws:sns:eu-west-1:2:orders"])), RejectionReason::WrongSender);
    }
    for (from, to, why) in [
        ("hello", "hullo", RejectionReason::NoMatchingSignature),
        ("\"sub\"", "\"\"", RejectionReason::NoMatchingSignature),
        ("\"Subject\":\"sub\",", "", RejectionReason::NoMatchingSignature),
        ("\"SignatureVersion\":\"1\"", "\"SignatureVersion\":\"2\"", RejectionReason::NoMatchingSignature),
        ("\"SignatureVersion\":\"1\"", "\"SignatureVersion\":\"3\"", RejectionReason::MalformedBody),
        ("\"Type\":", "\"Type\":\"Other\",\"Type\":", RejectionReason::MalformedBody),
        ("https://sns.eu-west-1.amazonaws.com/S", "https://attacker.example/S", RejectionReason::UntrustedUrl),
        ("\"Signature\":", "\"Signed\":", RejectionReason::MissingSignature),
    ] {
        assert!(SNS_NOTIFICATION.contains(from));
        assert_eq!(reason(sns(&SNS_NOTIFICATION.replace(from, to), &[])), why, "{from}");
    }
}

#[test]
fn an_sns_message_names_the_certificate_that_it_needs() {
    let fetching = Scheme::Sns(SnsScheme::default()).prepare(&[]).unwrap();
    let needed = |body: &str| {
        let body = body.as_bytes();
        let request = Request { method: "POST", url: None, query: "", path_token: None, headers: &[], body };
        fetching.certificate_needed(&request).map(|needed| (needed.url.into_owned(), needed.names))
    };
    let names = ["sns.amazonaws.com", "sns.eu-west-1.amazonaws.com"].map(str::to_owned).to_vec();
    assert_eq!(needed(SNS_NOTIFICATION), Some((SNS_URL.to_owned(), names)));
    assert_eq!(needed(&SNS_NOTIFICATION.replace("sns.eu-west-1.amazonaws.com/S", "attacker.example/S")), None);
    assert_eq!(needed(&SNS_NOTIFICATION.replace(".pem", ".exe")), None);
}
