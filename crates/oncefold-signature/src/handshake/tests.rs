use super::*;

fn request<'a>(method: &'a str, query: &'a str, body: &'a [u8]) -> Request<'a> {
    Request { method, url: None, query, path_token: None, headers: &[], body }
}

fn secret(text: &str) -> Secret {
    Secret::new(text).unwrap()
}

#[test]
fn echoes_are_bounded_and_never_a_page() {
    let markup = "challenge=%3Cscript%3Ealert(1)%3C%2Fscript%3E";
    let answer = Handshake::Dropbox.unsigned(&request("GET", markup, b"")).unwrap();
    assert_eq!((answer.content_type, answer.nosniff), (Some("text/plain"), true));
    let long = format!("challenge={}", "a".repeat(LONGEST_CHALLENGE + 1));
    for query in [long.as_str(), "challenge=", "challenge=a&challenge=b", "challenge=%FF", ""] {
        assert_eq!(Handshake::Dropbox.unsigned(&request("GET", query, b"")), None, "{query}");
    }
    assert_eq!(Handshake::Dropbox.unsigned(&request("POST", "challenge=a", b"")), None);
    assert_eq!(Handshake::MicrosoftGraph.unsigned(&request("POST", "validationToken=a", b"{}")), None);
}

#[test]
fn meta_is_refused_without_its_token() {
    let meta = Handshake::Meta { verify_token: secret("meatyhamhock") };
    let status = |query| meta.unsigned(&request("GET", query, b"")).map(|answer| answer.status);
    assert_eq!(status("hub.mode=subscribe&hub.challenge=1&hub.verify_token=meatyhamhock"), Some(200));
    assert_eq!(status("hub.mode=subscribe&hub.challenge=1"), Some(403));
    assert_eq!(status("hub.mode=subscribe&hub.challenge=1&hub.verify_token="), Some(403));
    assert_eq!(status("hub.challenge=1&hub.verify_token=meatyhamhock"), None);
}

#[test]
fn only_the_exact_ping_of_woocommerce_goes_unsigned() {
    let ping = |body: &[u8]| Handshake::WooCommerce.unsigned(&request("POST", "", body)).is_some();
    assert!(ping(b"webhook_id=5"));
    for body in [&b"webhook_id="[..], b"webhook_id=5&status=paid", b"webhook_id=5\n", b"{\"webhook_id\":5}", b""] {
        assert!(!ping(body), "{}", body.escape_ascii());
    }
    let headers: [(&str, &[u8]); 1] = [("X-WC-Webhook-Signature", b"")];
    let signed = Request { headers: &headers, ..request("POST", "", b"webhook_id=5") };
    assert_eq!(Handshake::WooCommerce.unsigned(&signed), None);
}

#[test]
fn only_listed_topics_at_amazon_are_confirmed() {
    let sns = Handshake::Sns { topics: vec!["arn:aws:sns:eu-west-1:1:orders".to_owned()] };
    let reply = |topic: &str, url: &str| {
        let body = format!(r#"{{"Type":"SubscriptionConfirmation","TopicArn":"{topic}","SubscribeURL":"{url}"}}"#);
        sns.signed(&request("POST", "", body.as_bytes()), None)
    };
    let url = "https://sns.eu-west-1.amazonaws.com/?Action=ConfirmSubscription&Token=1";
    let topic = "arn:aws:sns:eu-west-1:1:orders";
    assert_eq!(reply(topic, url), Some(Reply::Confirm { url: url.to_owned(), answer: Answer::empty(200) }));
    let refused = Some(Reply::Answer(Answer::empty(403)));
    assert_eq!(reply("arn:aws:sns:eu-west-1:2:orders", url), refused);
    for url in [
        "http://sns.eu-west-1.amazonaws.com/",
        "https://sns.eu-west-1.amazonaws.com.attacker.example/",
        "https://sns.eu-west-1.amazonaws.com@attacker.example/",
        "https://attacker.example/sns.eu-west-1.amazonaws.com/",
        "https://sns.eu-west-1.amazonaws.com:8443/",
        "https://sns.x.attacker.amazonaws.com/",
    ] {
        assert_eq!(reply(topic, url), refused, "{url}");
    }
    assert_eq!(sns.signed(&request("POST", "", br#"{"Type":"Notification"}"#), None), None);
}

#[test]
fn events_are_no_handshakes() {
    let secret = secret("zoom-secret-token");
    let none = |handshake: Handshake, body: &str| {
        assert_eq!(handshake.signed(&request("POST", "", body.as_bytes()), Some(&secret)), None, "{body}");
    };
    none(Handshake::Slack, r#"{"type":"event_callback","challenge":"x"}"#);
    none(Handshake::Slack, r#"{"type":"url_verification","challenge":5}"#);
    none(Handshake::Zoom, r#"{"event":"meeting.started","payload":{"plainToken":"x"}}"#);
    none(Handshake::Xero, r#"{"events":[{}]}"#);
    none(Handshake::Discord, r#"{"type":2}"#);
    none(Handshake::Discord, r#"{"type":1,"event":{"type":"APPLICATION_AUTHORIZED"}}"#);
    none(Handshake::Okta, "{}");
    let ping = Handshake::Discord.signed(&request("POST", "", br#"{"type":0}"#), None);
    assert_eq!(ping, Some(Reply::Answer(Answer::empty(204))));
}
