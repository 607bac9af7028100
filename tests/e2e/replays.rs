//! Dead letters, replays, discards and retries, on both backends (P4, P7).

use crate::first_look::orders;
use oncefold_e2e::deployment::VIEWER;
use oncefold_e2e::{Api, Backend, Deployment, Provider};
use serde_json::{Value, json};

fn backends() -> [Backend; 2] {
    [Backend::Embedded, Backend::Fleet]
}

/// Bodies of another shape than the config expects: the key stands elsewhere.
fn odd(n: usize) -> Vec<u8> {
    json!({"type": "order.paid", "order": {"id": format!("ord_{n}")}, "version": n}).to_string().into_bytes()
}

#[test]
fn a_mended_config_lands_what_was_parked() {
    for backend in backends() {
        let mut deployment = Deployment::on(backend, &orders());
        let mut serve = deployment.start(&["serve"]);
        let (ingest, api) = (serve.address("intake"), Api::at(serve.address("admin")));
        let provider = Provider::of("shop");
        for n in 0..3 {
            assert_eq!(provider.send(ingest, &format!("msg_{n}"), &odd(n)).unwrap().status, 200);
        }
        assert_eq!(provider.send(ingest, "msg_raw", b"no json").unwrap().status, 200);
        let parked = api.settled("", 4, std::time::Duration::from_secs(30));
        assert!(parked.iter().all(|e| e["status"] == "dead"), "{parked:?}");
        let groups = api.get("/dead-letters/groups");
        let groups = groups["items"].as_array().or(groups.as_array()).unwrap().clone();
        let counts: Vec<_> = groups.iter().map(|g| (g["reason"].clone(), g["count"].clone())).collect();
        assert_eq!(counts, [(json!("mapping.missing_key"), json!(3)), (json!("mapping.invalid_json"), json!(1))]);

        assert_eq!(serve.stop(), Some(0));
        deployment.rewrite(&orders().replace("key = \"/id\"", "key = \"/order/id\"\nepoch = 2"));
        let mut serve = deployment.start(&["serve"]);
        let api = Api::at(serve.address("admin"));
        let letter = |reason: &str| api.all(&format!("/dead-letters?reason={reason}"));
        let letters = letter("mapping.missing_key");
        assert_eq!(letters.len(), 3);

        // One by the API, one by the CLI.
        let first = letters[0]["id"].as_str().unwrap();
        let (status, event) = api.post(&format!("/dead-letters/{first}/replay"), None);
        assert_eq!((status, &event["status"]), (202, &json!("queued")), "{event}");
        let second = letters[1]["id"].as_str().unwrap();
        assert_eq!(deployment.cli(&["dead-letters", "replay", second]).status.code(), Some(0));
        for event_id in [&letters[0]["event_id"], &letters[1]["event_id"]] {
            let event = api.event(event_id.as_str().unwrap(), "applied");
            assert_eq!((&event["attempts"], &event["deliveries"]), (&json!(2), &json!(1)), "{event}");
        }
        assert_eq!(api.get("/entities?entity=order")["items"].as_array().map(Vec::len), Some(2));

        // The one that cannot be mapped is dead again, its history kept.
        let raw = letter("mapping.invalid_json")[0]["id"].as_str().unwrap().to_owned();
        assert_eq!(api.post(&format!("/events/{raw}/replay"), None).0, 202);
        let history = oncefold_e2e::wait::until("dead again", std::time::Duration::from_secs(30), || {
            let event = api.get(&format!("/events/{raw}"));
            if event["attempts"] == 2 && event["status"] == "dead" { Ok(event) } else { Err(event) }
        });
        let reasons: Vec<Value> =
            history["attempt_history"].as_array().unwrap().iter().map(|a| a["error"]["reason"].clone()).collect();
        assert_eq!(reasons, [json!("mapping.invalid_json"), json!("mapping.invalid_json")]);

        discard_is_final_until_replayed(&deployment, &api, &raw);
    }
}

fn discard_is_final_until_replayed(deployment: &Deployment, api: &Api, raw: &str) {
    let path = format!("/dead-letters/{raw}/discard");
    assert_eq!(api.post(&path, Some(&json!({}))).0, 400, "a discard needs a reason");
    let out = deployment.cli(&["dead-letters", "discard", raw, "--reason", "a test letter"]);
    assert_eq!(out.status.code(), Some(0), "{}", String::from_utf8_lossy(&out.stderr));
    assert_eq!(api.post(&path, Some(&json!({"reason": "again"}))).0, 409);
    let event = api.get(&format!("/events/{raw}"));
    assert_eq!(event["status"], "discarded");
    assert_eq!(api.post(&format!("/events/{raw}/replay"), None).0, 202, "a person may take it back");
}

#[test]
fn an_applied_event_can_be_replayed_and_changes_nothing() {
    for backend in backends() {
        let deployment = Deployment::on(backend, &orders());
        let mut serve = deployment.start(&["serve"]);
        let (ingest, api) = (serve.address("intake"), Api::at(serve.address("admin")));
        let provider = Provider::of("shop");
        let old = br#"{"type":"order.paid","id":"o","version":1,"n":"old"}"#;
        let new = br#"{"type":"order.paid","id":"o","version":2,"n":"new"}"#;
        provider.send(ingest, "msg_old", old).unwrap();
        provider.send(ingest, "msg_new", new).unwrap();
        api.event("msg_new", "applied");
        let id = api.event("msg_old", "applied")["id"].as_str().unwrap().to_owned();
        let viewer = Api::with_token(serve.address("admin"), VIEWER);
        assert_eq!(viewer.post(&format!("/events/{id}/replay"), None).0, 403);
        assert_eq!(api.post(&format!("/events/{id}/replay"), None).0, 202);
        let event = oncefold_e2e::wait::until("replayed", std::time::Duration::from_secs(30), || {
            let event = api.get(&format!("/events/{id}"));
            if event["attempts"] == 2 && event["status"] == "applied" { Ok(event) } else { Err(event) }
        });
        assert_eq!(event["changes"][0]["verdict"], "stale", "{event}");
        assert_eq!(api.get("/entities/order/o")["state"]["n"], "new");
        let history = api.get("/entities/order/o/history");
        assert_eq!(history["items"].as_array().map(Vec::len), Some(3), "{history}");
    }
}

/// A trigger of the team's own that refuses one key.
fn refusing(backend: Backend) -> &'static str {
    match backend {
        Backend::Embedded => {
            "CREATE TRIGGER refuse BEFORE INSERT ON entities WHEN new.key = 'bad' \
             BEGIN SELECT RAISE(ABORT, 'not today'); END"
        }
        Backend::Fleet => {
            "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
             IF NEW.key = 'bad' THEN RAISE EXCEPTION 'not today'; END IF; RETURN NEW; END $$; \
             CREATE TRIGGER refuse BEFORE INSERT OR UPDATE ON entities FOR EACH ROW EXECUTE FUNCTION refuse()"
        }
    }
}

/// A passing failure is tried again with backoff, dead after the last attempt, with its reason; neighbours in the same
/// batch are applied. Without the trigger, a replay lands it.
#[test]
fn a_passing_failure_is_retried_and_parked_at_last() {
    let retry = "[retry]\nmax_attempts = 3\nbase = \"100ms\"\ncap = \"200ms\"\n";
    for backend in backends() {
        let deployment = Deployment::on(backend, &format!("{retry}{}", orders()));
        let mut serve = deployment.start(&["serve"]);
        let (ingest, api) = (serve.address("intake"), Api::at(serve.address("admin")));
        deployment.sql(refusing(backend));
        let provider = Provider::of("shop");
        for key in ["a", "bad", "b"] {
            let body = json!({"type": "order.paid", "id": key, "version": 1}).to_string();
            assert_eq!(provider.send(ingest, &format!("msg_{key}"), body.as_bytes()).unwrap().status, 200);
        }
        api.event("msg_a", "applied");
        api.event("msg_b", "applied");
        let dead = api.event("msg_bad", "dead");
        assert_eq!((&dead["attempts"], &dead["error"]["reason"]), (&json!(3), &json!("apply.failed")), "{dead}");
        let message = dead["error"]["message"].as_str().unwrap();
        assert!(message.contains("raised an error") && !message.contains("not today"), "the text is theirs: {dead}");
        let id = dead["id"].as_str().unwrap();
        let history = api.get(&format!("/events/{id}"))["attempt_history"].clone();
        let statuses: Vec<_> = history.as_array().unwrap().iter().map(|a| a["status"].clone()).collect();
        assert_eq!(statuses, [json!("retrying"), json!("retrying"), json!("dead")], "{backend:?}");
        assert_eq!(api.try_get("/entities/order/bad").0, 404, "nothing of it was written");
        deployment.sql(match backend {
            Backend::Embedded => "DROP TRIGGER refuse",
            Backend::Fleet => "DROP TRIGGER refuse ON entities",
        });
        assert_eq!(api.post(&format!("/dead-letters/{id}/replay"), None).0, 202);
        let applied = api.event("msg_bad", "applied");
        assert_eq!((&applied["attempts"], &applied["error"]), (&json!(4), &Value::Null), "{applied}");
        assert_eq!(api.get("/entities/order/bad")["version"], "1");
    }
}
