//! The command line and the config, as a user meets them.

use crate::first_look::orders;
use oncefold_e2e::{Api, Backend, Deployment, Provider};
use serde_json::{Value, json};
use std::process::Output;

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn assert_exit(out: &Output, code: i32, what: &str) {
    assert_eq!(out.status.code(), Some(code), "{what}: {} {}", text(&out.stdout), text(&out.stderr));
}

#[test]
fn check_names_every_problem_with_its_line() {
    let bad = "[worker]\nbatsh = 5\n[sources.shop]\npreset = \"svixx\"\nsecrets = []\n";
    let deployment = Deployment::on(Backend::Embedded, bad);
    let out = deployment.cli(&["check"]);
    assert_exit(&out, 2, "check");
    let (stderr, config) = (text(&out.stderr), std::fs::read_to_string(deployment.config()).unwrap());
    for (word, mend) in [("batsh", "batch"), ("svixx", "svix")] {
        let line = config.lines().position(|l| l.contains(word)).unwrap() + 1;
        let named = stderr.lines().find(|l| l.contains(&format!("oncefold.toml:{line}:")));
        assert!(named.is_some_and(|l| l.contains(mend)), "{word}: {stderr}");
    }
}

#[test]
fn check_looks_at_connections() {
    let deployment = Deployment::on(Backend::Fleet, &orders());
    assert_exit(&deployment.cli(&["check"]), 0, "all there");
    let nowhere = "postgres://nobody:hush-hush@127.0.0.1:9/none".to_owned();
    let deployment = deployment.through(Some(nowhere), Some("amqp://guest:hush-hush@127.0.0.1:9/none".to_owned()));
    let out = deployment.cli(&["check"]);
    assert_exit(&out, 1, "nothing there");
    let said = text(&out.stderr) + &text(&out.stdout);
    assert!(said.contains("store.url") && said.contains("queue.url"), "both are named: {said}");
    assert!(!said.contains("hush-hush"), "no password is shown: {said}");
}

#[test]
fn send_verify_and_look() {
    let deployment = Deployment::on(Backend::Embedded, &orders());
    let mut serve = deployment.start(&["serve"]);
    let url = format!("http://{}/in/shop", serve.address("intake"));
    let api = Api::at(serve.address("admin"));
    let data = r#"{"id":"ord_1","version":3,"amount":1.50}"#;
    let send = ["send", "--source", "shop", "--type", "order.paid", "--data", data, "--id", "msg_a", "--repeat", "3"];
    let sent = deployment.cli_json(&[&send[..], &["--url", &url]].concat());
    assert_eq!(sent.as_array().map(Vec::len), Some(3));
    let event = api.event("msg_a", "applied");
    oncefold_e2e::wait::until("three deliveries", std::time::Duration::from_secs(20), || {
        let event = api.event("msg_a", "applied");
        if event["deliveries"] == 3 { Ok(()) } else { Err(event) }
    });
    let id = event["id"].as_str().unwrap();
    assert_eq!(deployment.cli_json(&["events", "show", id])["event_id"], "msg_a");
    let body = deployment.cli(&["events", "show", id, "--body"]).stdout;
    assert_eq!(serde_json::from_slice::<Value>(&body).unwrap()["amount"].to_string(), "1.50");
    let list = deployment.cli_json(&["events", "list", "--source", "shop", "--status", "applied"]);
    assert_eq!(list["items"][0]["id"], id);
    let history = deployment.cli_json(&["entities", "history", "order", "ord_1"]);
    assert_eq!(history["items"][0]["verdict"], "applied");
    let table = text(&deployment.cli(&["entities", "list"]).stdout);
    assert!(table.contains("ord_1"), "{table}");
    assert_exit(&deployment.cli(&["events", "show", "no-uuid"]), 2, "usage");
    assert_exit(&deployment.cli(&["entities", "get", "order", "nope"]), 1, "not there");
    let ops = serve.address("ops").to_string();
    assert_exit(&deployment.cli(&["healthcheck", "--address", &ops]), 0, "healthcheck");
    assert_eq!(serve.stop(), Some(0));
    assert_exit(&deployment.cli(&["healthcheck", "--address", &ops]), 1, "healthcheck of nobody");
}

#[test]
fn verify_explains_a_captured_request() {
    let deployment = Deployment::on(Backend::Embedded, &orders());
    let write = |name: &str, bytes: &[u8]| {
        let path = deployment.dir().join(name);
        std::fs::write(&path, bytes).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let body = br#"{"type":"order.paid"}"#;
    let lines: String =
        Provider::signed_at("msg_1", 1_760_000_000, body).iter().map(|(n, v)| format!("{n}: {v}\n")).collect();
    let (headers, good) = (write("headers", lines.as_bytes()), write("body", body));
    let changed = write("changed", br#"{"type": "order.paid"}"#);
    let verify = |body: &str, at: &str| {
        deployment.cli(&["verify", "--source", "shop", "--headers", &headers, "--body", body, "--at", at, "--json"])
    };
    let verdict = |out: &Output| serde_json::from_slice::<Value>(&out.stdout).unwrap();
    let out = verify(&good, "1760000100");
    assert_exit(&out, 0, "valid");
    assert_eq!(verdict(&out), json!({"verdict": "valid", "reason": null, "detail": null, "secret_index": 0}));
    let out = verify(&good, "2025-10-09T09:53:20Z");
    assert_exit(&out, 1, "an hour late");
    assert_eq!(verdict(&out)["reason"], "timestamp_too_old");
    let out = verify(&changed, "1760000100");
    assert_exit(&out, 1, "changed");
    assert_eq!(verdict(&out)["reason"], "no_matching_signature");
    assert!(!text(&out.stdout).contains(&Provider::secret()[6..]), "no secret is shown");
    assert_exit(&deployment.cli(&["verify", "--source", "nope", "--headers", &headers, "--body", &good]), 2, "config");
}

#[test]
fn tokens_presets_and_usage() {
    let deployment = Deployment::on(Backend::Embedded, &orders());
    let token = deployment.cli_json(&["token", "new", "--name", "me", "--role", "viewer"]);
    let hash = <sha2::Sha256 as sha2::Digest>::digest(token["token"].as_str().unwrap());
    assert_eq!(token["sha256"], hex::encode(hash));
    assert!(token["toml"].as_str().unwrap().contains("role = \"viewer\""));
    let presets = deployment.cli_json(&["presets", "list"]);
    for preset in presets.as_array().unwrap() {
        let shown = deployment.cli(&["presets", "show", preset["name"].as_str().unwrap()]);
        assert_exit(&shown, 0, "presets show");
        assert!(text(&shown.stdout).contains("[sources."), "it can be pasted");
    }
    assert_exit(&deployment.cli(&["presets", "show", "nobody"]), 2, "no such preset");
    assert_exit(&deployment.cli(&["frobnicate"]), 2, "usage");
    assert_exit(&deployment.cli(&["--help"]), 0, "help");
}

#[test]
fn the_demo_holds() {
    let deployment = Deployment::on(Backend::Embedded, "");
    let out = deployment.cli(&["serve", "--demo", "--exit"]);
    assert_exit(&out, 0, "the demo");
    let table = text(&out.stdout);
    assert!(!table.contains("DIFFERS") && table.contains("entities as expected"), "{table}");
}
