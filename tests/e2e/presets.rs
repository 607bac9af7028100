//! Presets as a user turns them on, in the real binary: handshakes of the providers, and deliveries of several events.
//! What is signed is signed here, apart from the product's own code.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use oncefold_e2e::{Api, Backend, Deployment};
use serde_json::json;
use sha2::Sha256;
use std::net::SocketAddr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const SECRET: &str = "a secret of enough bytes";
const HEX_KEY: &str = "44782DEF547AAA06C910C43932B1EB0C71FC68D9D0C057550C48EC2ACF6BA056";
const HUBSPOT_URL: &str = "https://hooks.example/in/hubspot?a=1";

fn sources() -> String {
    let plain = ["slack", "zoom", "dropbox", "xero", "intercom", "woocommerce"];
    let plain = plain.map(|name| format!("[sources.{name}]\npreset = \"{name}\"\nsecrets = [\"{SECRET}\"]\n"));
    format!(
        "{}[sources.meta]\npreset = \"meta\"\nsecrets = [\"{SECRET}\"]\nhandshake = {{ verify_token = \"meatyhamhock\" }}\n\
         [sources.hubspot]\npreset = \"hubspot\"\nsecrets = [\"{SECRET}\"]\nurl = \"{HUBSPOT_URL}\"\n\
         [sources.adyen]\npreset = \"adyen\"\nsecrets = [\"{HEX_KEY}\"]\n\
         [[sources.adyen.projections]]\non = [\"*\"]\nentity = \"payment_fact\"\n\
         key = [{{ first = [\"/originalReference\", \"/pspReference\"] }}, \"/eventCode\"]\nversion = [\"/eventDate\"]\n",
        plain.concat()
    )
}

fn tag(key: &[u8], signed: &str) -> Vec<u8> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).unwrap();
    mac.update(signed.as_bytes());
    mac.finalize().into_bytes().to_vec()
}

fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

/// Status, content type and body.
type Answer = (u16, Option<String>, String);

fn ask(to: SocketAddr, method: &str, target: &str, headers: &[(&str, String)], body: &str) -> Answer {
    let config =
        ureq::Agent::config_builder().http_status_as_error(false).timeout_global(Some(Duration::from_secs(15)));
    let agent: ureq::Agent = config.build().into();
    let url = format!("http://{to}/in/{target}");
    let mut response = match method {
        "GET" => agent.get(url).call().unwrap(),
        "HEAD" => agent.head(url).call().unwrap(),
        _ => headers.iter().fold(agent.post(url), |r, (name, value)| r.header(*name, value)).send(body).unwrap(),
    };
    let text = |name: &str| response.headers().get(name).map(|value| value.to_str().unwrap().to_owned());
    let content_type = text("content-type");
    if content_type.as_deref() == Some("text/plain") && response.status() == 200 && method == "GET" {
        assert_eq!(text("x-content-type-options").as_deref(), Some("nosniff"), "{target}");
    }
    (response.status().as_u16(), content_type, response.body_mut().read_to_string().unwrap())
}

#[test]
fn providers_can_save_their_webhooks() {
    [Backend::Embedded, Backend::Fleet].into_iter().for_each(webhooks_can_be_saved);
}

fn webhooks_can_be_saved(backend: Backend) {
    let deployment = Deployment::on(backend, &sources());
    let mut serve = deployment.start(&["serve"]);
    let (ingest, api) = (serve.address("intake"), Api::at(serve.address("admin")));
    let text = Some("text/plain".to_owned());
    let get = |target: &str| ask(ingest, "GET", target, &[], "");
    let meta = "meta?hub.mode=subscribe&hub.challenge=1158201444&hub.verify_token=";
    assert_eq!(get(&format!("{meta}meatyhamhock")), (200, text.clone(), "1158201444".to_owned()));
    assert_eq!(get(&format!("{meta}wrong")).0, 403);
    assert_eq!(get("dropbox?challenge=abc123"), (200, text.clone(), "abc123".to_owned()));
    assert_eq!(get("dropbox").0, 405);
    assert_eq!(ask(ingest, "HEAD", "intercom", &[], "").0, 200);
    assert_eq!(ask(ingest, "POST", "woocommerce", &[], "webhook_id=5").0, 200);

    let at = now_s();
    let signed = |header: &'static str, time: &'static str, body: &str| {
        let tag = hex::encode(tag(SECRET.as_bytes(), &format!("v0:{at}:{body}")));
        vec![(time, at.to_string()), (header, format!("v0={tag}"))]
    };
    let body = r#"{"type":"url_verification","challenge":"3eZbrw1aBm2r"}"#;
    let headers = signed("x-slack-signature", "x-slack-request-timestamp", body);
    assert_eq!(ask(ingest, "POST", "slack", &headers, body), (200, text, "3eZbrw1aBm2r".to_owned()));
    assert_eq!(ask(ingest, "POST", "slack", &[], body).0, 401);
    let body = r#"{"event":"endpoint.url_validation","payload":{"plainToken":"qgg8"}}"#;
    let headers = signed("x-zm-signature", "x-zm-request-timestamp", body);
    let encrypted = hex::encode(tag(SECRET.as_bytes(), "qgg8"));
    let expected = format!(r#"{{"plainToken":"qgg8","encryptedToken":"{encrypted}"}}"#);
    let json_type = Some("application/json".to_owned());
    assert_eq!(ask(ingest, "POST", "zoom", &headers, body), (200, json_type, expected));
    let body = r#"{"events":[],"firstEventSequence":0,"lastEventSequence":0}"#;
    let xero = vec![("x-xero-signature", STANDARD.encode(tag(SECRET.as_bytes(), body)))];
    assert_eq!(ask(ingest, "POST", "xero", &xero, body), (200, None, String::new()));
    assert_eq!(
        ask(ingest, "POST", "xero", &[("x-xero-signature", "AAAA".to_owned())], body),
        (401, None, String::new())
    );
    // What follows comes behind them in the queue: none of them was an event.
    let woo = r#"{"id":1}"#;
    let headers = vec![
        ("x-wc-webhook-signature", STANDARD.encode(tag(SECRET.as_bytes(), woo))),
        ("x-wc-webhook-topic", "order.x".to_owned()),
    ];
    assert_eq!(ask(ingest, "POST", "woocommerce", &headers, woo).0, 200);
    api.settled("", 1, Duration::from_secs(30));
}

fn item(psp: &str, code: &str, date: &str) -> String {
    let signed = format!("{psp}::Shop:REF:1:2500:EUR:{code}:true");
    let signature = STANDARD.encode(tag(&hex::decode(HEX_KEY).unwrap(), &signed));
    format!(
        r#"{{"NotificationRequestItem":{{"additionalData":{{"hmacSignature":"{signature}"}},"amount":{{"currency":"EUR","value":2500}},
        "eventCode":"{code}","eventDate":"{date}","merchantAccountCode":"Shop","merchantReference":"REF:1","pspReference":"{psp}","success":"true"}}}}"#
    )
}

#[test]
fn batches_of_providers_are_events_each() {
    for backend in [Backend::Embedded, Backend::Fleet] {
        let deployment = Deployment::on(backend, &sources());
        let mut serve = deployment.start(&["serve"]);
        let (ingest, api) = (serve.address("intake"), Api::at(serve.address("admin")));
        // One that is captured later under the same id is a duplicate with newer details.
        let dates = ["2025-10-09T10:53:20+02:00", "2025-10-09T09:53:20+02:00", "2025-10-09T11:53:20+02:00"];
        let items = [item("P1", "AUTHORISATION", dates[0]), item("P1", "CAPTURE", dates[1])].join(",");
        let batch = format!(r#"{{"live":"false","notificationItems":[{items}]}}"#);
        let again = format!(r#"{{"live":"false","notificationItems":[{}]}}"#, item("P1", "AUTHORISATION", dates[2]));
        for body in [&batch, &batch, &again] {
            assert_eq!(
                ask(ingest, "POST", "adyen", &[], body),
                (200, Some("text/plain".to_owned()), "[accepted]".to_owned())
            );
        }
        let forged = batch.replacen("2500", "1", 1);
        assert_eq!(ask(ingest, "POST", "adyen", &[], &forged).0, 401);
        let fact = |code: &str| api.get(&format!("/entities/payment_fact/P1:{code}"))["state"]["eventDate"].clone();
        oncefold_e2e::wait::until("the newest details are there", Duration::from_secs(30), || {
            let (status, found) = api.try_get("/entities/payment_fact/P1:AUTHORISATION");
            if status == 200 && found["state"]["eventDate"] == dates[2] { Ok(()) } else { Err(found) }
        });
        assert_eq!(fact("CAPTURE"), json!(dates[1]));

        let change = |event: u32, attempt: u32| {
            format!(
                r#"{{"eventId":{event},"subscriptionId":1,"objectId":2,"occurredAt":1760000000417,"subscriptionType":"contact.creation","attemptNumber":{attempt}}}"#
            )
        };
        for attempt in 0..2 {
            let body = format!("[{},{}]", change(1, attempt), change(2, attempt));
            let at = now_s() * 1000;
            let tag = STANDARD.encode(tag(SECRET.as_bytes(), &format!("POST{HUBSPOT_URL}{body}{at}")));
            let headers = [("x-hubspot-signature-v3", tag), ("x-hubspot-request-timestamp", at.to_string())];
            assert_eq!(ask(ingest, "POST", "hubspot", &headers, &body).0, 200);
        }
        oncefold_e2e::wait::until("two changes came twice", Duration::from_secs(30), || {
            let events = api.all("/events?source=hubspot&type=contact.creation");
            let deliveries: u64 = events.iter().filter_map(|event| event["deliveries"].as_u64()).sum();
            if deliveries == 4 { Ok(()) } else { Err(events) }
        });
    }
}
