//! What providers do beside one JSON event a request, from HTTP to folded state; and secrets that change while it runs.

use hmac::{Hmac, KeyInit as _, Mac as _};
use oncefold_e2e::{Api, Backend, Deployment, Provider, wait};
use serde_json::json;
use sha2::Sha256;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const STRIPE_SECRET: &str = "whsec_of_stripe_used_as_it_is";

fn sources() -> String {
    let secret = Provider::secret();
    format!(
        "[sources.batches]\npreset = \"svix\"\nsecrets = [\"{secret}\"]\nsplit = \"/events\"\nid = \"/eid\"\n\
         [[sources.batches.projections]]\non = [\"contact.*\"]\nentity = \"contact\"\nkey = \"/contact\"\nversion = [\"/at\"]\n\
         [sources.swapped]\npreset = \"svix\"\nsecrets = [\"{OTHER}\"]\n\
         [sources.pay]\npreset = \"stripe\"\nsecrets = [\"{STRIPE_SECRET}\"]\ndefault_projections = true\n\
         [sources.sms]\nverify = {{ scheme = \"none\" }}\nformat = \"form\"\nid = [\"/sid\", \"/status\"]\ntype = \"const:sms\"\n\
         [[sources.sms.projections]]\non = [\"sms\"]\nentity = \"sms\"\nkey = \"/sid\"\nversion = [\"received_at\"]\n\
         [sources.pings]\npreset = \"zonos\"\nsecrets = [\"a-token-of-the-path\"]\nid = {{ derive = [\"\"], window = \"35d\" }}\n"
    )
}

/// Stripe's header for this body, signed now: apart from the product's own code.
fn stripe(body: &[u8]) -> Vec<(String, String)> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let mut mac = Hmac::<Sha256>::new_from_slice(STRIPE_SECRET.as_bytes()).unwrap();
    mac.update(format!("{now}.").as_bytes());
    mac.update(body);
    let signature = format!("t={now},v1={}", hex::encode(mac.finalize().into_bytes()));
    vec![("stripe-signature".to_owned(), signature)]
}

fn batches(ingest: SocketAddr, api: &Api) {
    let body = br#"{"events":[{"eid":"e1","type":"contact.a","contact":"c1","at":1,"n":1.0},
        {"eid":"e2","type":"contact.b","contact":"c1","at":2,"n":2.50}, {"eid":7,"type":"contact.c"}]}"#;
    for message in ["m1", "m2"] {
        assert_eq!(Provider::of("batches").send(ingest, message, body).unwrap().status, 200);
    }
    let events = wait::until("three events came twice", Duration::from_secs(30), || {
        let events = api.all("/events?source=batches");
        let twice = events.iter().filter(|event| event["deliveries"] == 2).count();
        let dead = events.iter().filter(|event| event["status"] == "dead").count();
        if (events.len(), twice, dead) == (3, 3, 1) { Ok(events) } else { Err(events) }
    });
    let state = &api.get("/entities/contact/c1")["state"];
    assert_eq!(state.to_string(), r#"{"at":2,"contact":"c1","eid":"e2","n":2.50,"type":"contact.b"}"#);
    let parked = events.iter().find(|event| event["status"] == "dead").unwrap();
    assert_eq!(parked["error"]["reason"], "mapping.missing_id");
}

/// One event id and one object id at two accounts are two events and two objects.
fn accounts(ingest: SocketAddr, api: &Api) {
    for (account, amount) in [("", 1), (r#""account":"acct_1","#, 2), (r#""context":"acct_2","account":null,"#, 3)] {
        let body = format!(
            r#"{{"id":"evt_1",{account}"type":"charge.succeeded","created":1760000000,
            "data":{{"object":{{"id":"ch_1","status":"succeeded","amount":{amount},"amount_refunded":0}}}}}}"#
        );
        let reply = Provider::of("pay").post(ingest, &stripe(body.as_bytes()), body.as_bytes()).unwrap();
        assert_eq!(reply.status, 200);
    }
    api.settled("?source=pay", 3, Duration::from_secs(30));
    for (key, amount) in [("ch_1", 1), ("acct_1:ch_1", 2), ("acct_2:ch_1", 3)] {
        assert_eq!(api.get(&format!("/entities/charge/{key}"))["state"]["amount"], amount, "{key}");
    }
}

fn forms_and_pings(ingest: SocketAddr, api: &Api) {
    let form = vec![("content-type".to_owned(), "application/x-www-form-urlencoded".to_owned())];
    let body = b"sid=SM1&status=sent&to=%2B420+1&media=a&media=b";
    assert_eq!(Provider::of("sms").post(ingest, &form, body).unwrap().status, 200);
    let event = api.event("SM1:sent", "applied");
    let state = json!({"sid": "SM1", "status": "sent", "to": "+420 1", "media": ["a", "b"]});
    assert_eq!(api.get("/entities/sms/SM1")["state"], state);
    let path = format!("/events/{}/body", event["id"].as_str().unwrap());
    assert_eq!(api.try_get(&path).1, json!(String::from_utf8_lossy(body)), "the exact bytes are kept");
    for _ in 0..2 {
        let ping = Provider::of("pings/a-token-of-the-path").post(ingest, &[], br#"{"data":{"order":{"id":1}}}"#);
        assert_eq!(ping.unwrap().status, 200);
    }
    wait::until("the second ping is a repeat", Duration::from_secs(30), || {
        let events = api.all("/events?source=pings");
        if events.len() == 1 && events[0]["deliveries"] == 2 { Ok(()) } else { Err(events) }
    });
}

/// Why a delivery was refused is told to the operator, not to the sender.
fn rejections(ingest: SocketAddr, api: &Api) {
    let refused = Provider::of("swapped").send(ingest, "m1", b"{}").unwrap();
    assert_eq!(refused.status, 401);
    assert!(!refused.body.contains("batches"));
    let item = wait::until("the rejection is logged", Duration::from_secs(20), || {
        let item = api.get("/rejected?source=swapped")["items"][0].clone();
        if item.is_null() { Err(()) } else { Ok(item) }
    });
    assert_eq!((&item["reason"], &item["method"]), (&json!("no_matching_signature"), &json!("POST")));
    assert!(item["diagnosis"].to_string().contains("it verifies at source `batches`"), "{item}");
    assert!(!item.to_string().contains("whsec_"), "{item}");
    assert_eq!(api.get("/rejected?source=pay")["items"], json!([]));
}

#[test]
fn what_providers_send_ends_in_state() {
    for backend in [Backend::Embedded, Backend::Fleet] {
        let deployment = Deployment::on(backend, &sources());
        let mut serve = deployment.start(&["serve"]);
        let (ingest, api) = (serve.address("intake"), Api::at(serve.address("admin")));
        batches(ingest, &api);
        accounts(ingest, &api);
        forms_and_pings(ingest, &api);
        rejections(ingest, &api);
    }
}

/// What `send` makes is what the source takes.
#[test]
fn send_writes_what_the_source_takes() {
    let deployment = Deployment::on(Backend::Embedded, &sources());
    let mut serve = deployment.start(&["serve"]);
    let (ingest, api) = (serve.address("intake"), Api::at(serve.address("admin")));
    for (source, data) in [("batches", r#"{"contact":"c9","at":1}"#), ("sms", r#"{"sid":"S","n":5}"#), ("pay", "{}")] {
        let url = format!("http://{ingest}/in/{source}");
        let sent = deployment.cli(&[
            "send",
            "--source",
            source,
            "--type",
            "contact.x",
            "--id",
            "i9",
            "--data",
            data,
            "--url",
            &url,
        ]);
        assert!(sent.status.success(), "{source}: {}", String::from_utf8_lossy(&sent.stderr));
    }
    assert_eq!(api.event("i9", "applied")["source"], "batches");
    assert_eq!(api.event("S:i9", "applied")["source"], "sms");
    api.settled("?source=pay", 1, Duration::from_secs(30));
}

fn rotating(file: &std::path::Path) -> String {
    format!("[sources.shop]\npreset = \"svix\"\nsecrets = [\"file:{}\"]\n", file.display())
}

/// Another secret than the provider's.
const OTHER: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";

#[test]
fn secrets_are_read_again_when_their_file_changes() {
    let mut deployment = Deployment::on(Backend::Embedded, "");
    let file = deployment.dir().join("secret");
    std::fs::write(&file, OTHER).unwrap();
    deployment.rewrite(&rotating(&file));
    let mut serve = deployment.start(&["serve"]);
    let (ingest, api) = (serve.address("intake"), Api::at(serve.address("admin")));
    let status = |id: &str| Provider::of("shop").send(ingest, id, b"{}").unwrap().status;
    let becomes = |expected: u16, why: &str| {
        wait::until(why, Duration::from_secs(20), || match status("msg_1") {
            status if status == expected => Ok(()),
            other => Err(other),
        });
    };
    assert_eq!(status("msg_1"), 401);
    std::fs::write(&file, Provider::secret()).unwrap();
    becomes(200, "the new secret is in force");
    wait::until("what was refused is explained with it", Duration::from_secs(20), || {
        let item = api.get("/rejected?source=shop")["items"][0].clone();
        if item["diagnosis"].to_string().contains("verifies with the present secrets") { Ok(()) } else { Err(item) }
    });
    // What cannot be used is refused, and said; what was in force stays.
    std::fs::write(&file, "").unwrap();
    serve.signal("HUP");
    let said = |serve: &oncefold_e2e::Running| {
        serve.stderr().iter().filter(|line| line.contains("the secrets in force stay")).count()
    };
    wait::until("it is said", Duration::from_secs(20), || if said(&serve) > 0 { Ok(()) } else { Err(()) });
    assert_eq!(status("msg_2"), 200);
    std::fs::write(&file, format!("{OTHER}\n")).unwrap();
    becomes(401, "the old secret is dead");
    assert!(serve.stderr().iter().all(|line| !line.contains(OTHER) && !line.contains(&Provider::secret())));
    assert!(serve.is_running(), "SIGHUP ends nothing");
}

/// A process of its own for the API has nothing to verify: what was refused, it explains with the secrets in force.
#[test]
fn an_admin_process_reads_secrets_again() {
    let mut deployment = Deployment::on(Backend::Fleet, "");
    let file = deployment.dir().join("secret");
    std::fs::write(&file, OTHER).unwrap();
    deployment.rewrite(&rotating(&file));
    let (mut ingest, mut admin) = (deployment.start(&["ingest"]), deployment.start(&["admin"]));
    let api = Api::at(admin.address("admin"));
    assert_eq!(Provider::of("shop").send(ingest.address("intake"), "msg_1", b"{}").unwrap().status, 401);
    let explained = |verifies: bool, why: &str| {
        wait::until(why, Duration::from_secs(20), || {
            let item = api.get("/rejected?source=shop")["items"][0].clone();
            let found = item["diagnosis"].to_string().contains("verifies with the present secrets");
            if item["diagnosis"].is_array() && found == verifies { Ok(()) } else { Err(item) }
        });
    };
    explained(false, "it is explained with the old secret");
    assert_eq!(ingest.stop(), Some(0));
    std::fs::write(&file, Provider::secret()).unwrap();
    explained(true, "the file was found changed");
    let said = |admin: &oncefold_e2e::Running, what: &str| {
        wait::until(what, Duration::from_secs(20), || {
            if admin.stderr().iter().any(|line| line.contains(what)) { Ok(()) } else { Err(admin.stderr()) }
        });
    };
    said(&admin, "secrets read again");
    std::fs::write(&file, "").unwrap();
    admin.signal("HUP");
    said(&admin, "the secrets in force stay");
    explained(true, "what was in force stays");
    std::fs::write(&file, format!("{OTHER}\n")).unwrap();
    admin.signal("HUP");
    explained(false, "the other secret is in force");
    assert!(admin.stderr().iter().all(|line| !line.contains(OTHER) && !line.contains(&Provider::secret())));
    assert!(admin.is_running(), "SIGHUP ends nothing");
}

#[test]
fn no_request_is_lost_while_secrets_change() {
    let mut deployment = Deployment::on(Backend::Embedded, "");
    let source =
        |other: &str| format!("[sources.shop]\npreset = \"svix\"\nsecrets = [{other}\"{}\"]\n", Provider::secret());
    deployment.rewrite(&source(""));
    let mut serve = deployment.start(&["serve"]);
    let (ingest, ops) = (serve.address("intake"), serve.address("ops"));
    let done = AtomicBool::new(false);
    let sent = std::thread::scope(|scope| {
        let sender = scope.spawn(|| {
            let mut sent = 0;
            while !done.load(Ordering::SeqCst) {
                let reply = Provider::of("shop").send(ingest, &format!("msg_{sent}"), b"{}").unwrap();
                assert_eq!(reply.status, 200, "delivery {sent}");
                sent += 1;
            }
            sent
        });
        for round in 0..10 {
            deployment.rewrite(&source(if round % 2 == 0 {
                "\"whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD\", "
            } else {
                ""
            }));
            serve.signal("HUP");
            let read = |serve: &oncefold_e2e::Running| {
                serve.stderr().iter().filter(|line| line.contains("secrets read again")).count()
            };
            wait::until("it is read", Duration::from_secs(20), || if read(&serve) > round { Ok(()) } else { Err(()) });
        }
        done.store(true, Ordering::SeqCst);
        sender.join().unwrap()
    });
    assert!(sent > 10, "{sent}");
    let text = ureq::get(format!("http://{ops}/metrics")).call().unwrap().body_mut().read_to_string().unwrap();
    let matched = |secret: u32| {
        let start = format!("oncefold_ingest_secret_matches_total{{secret=\"{secret}\",source=\"shop\"}} ");
        text.lines().find_map(|line| line.strip_prefix(&start)).map_or(0, |count| count.parse::<u32>().unwrap())
    };
    assert!(matched(0) > 0 && matched(1) > 0, "which secret fitted is counted: {} {}", matched(0), matched(1));
    assert_eq!(matched(0) + matched(1), sent);
}
