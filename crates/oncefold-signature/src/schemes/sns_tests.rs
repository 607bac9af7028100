use super::*;
use crate::scheme::Scheme;

#[test]
fn only_https_urls_at_sns_are_taken() {
    for url in [
        "https://sns.eu-west-1.amazonaws.com/SimpleNotificationService-1.pem",
        "https://sns.cn-north-1.amazonaws.com.cn/?Action=ConfirmSubscription",
    ] {
        assert!(is_at_sns(url), "{url}");
    }
    for url in [
        "http://sns.eu-west-1.amazonaws.com/a.pem",
        "https://sns.eu-west-1.amazonaws.com#@attacker.example/a.pem",
        "https://sns.eu.amazonaws.com/a.pem",
        "https://sns.eu-west-1.amazonaws.com.evil.com/a.pem",
        "https://attacker.sns.eu-west-1.amazonaws.com/a.pem",
        "https://sns.eu-west-1.s3.amazonaws.com/a.pem",
        "https://user@sns.eu-west-1.amazonaws.com/a.pem",
        "//sns.eu-west-1.amazonaws.com/a.pem",
    ] {
        assert!(!is_at_sns(url), "{url}");
    }
}

#[test]
fn without_topics_there_is_a_warning_and_secrets_are_refused() {
    let open = Scheme::Sns(SnsScheme::default());
    assert_eq!(open.prepare(&[]).unwrap().warnings().len(), 1);
    assert!(open.prepare(&[Secret::new("0123456789abcdef").unwrap()]).is_err());
    let listed = SnsScheme { topics: vec!["arn:aws:sns:eu-west-1:1:orders".to_owned()], ..SnsScheme::default() };
    assert!(Scheme::Sns(listed).prepare(&[]).unwrap().warnings().is_empty());
}
