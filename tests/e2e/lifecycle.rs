//! Roles as processes: metrics, health, logs, stopping.

use crate::first_look::orders;
use oncefold_e2e::{Api, Backend, Deployment, Provider, wait};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::time::Duration;

const SOON: Duration = Duration::from_secs(30);

fn get(address: SocketAddr, path: &str) -> String {
    ureq::get(format!("http://{address}{path}")).call().unwrap().body_mut().read_to_string().unwrap()
}

#[test]
fn a_trace_runs_from_intake_to_the_verdict_and_figures_are_counted() {
    for backend in [Backend::Embedded, Backend::Fleet] {
        let deployment = Deployment::on(backend, &orders());
        let mut serve = deployment.start(&["serve"]);
        let (ingest, api, ops) = (serve.address("intake"), Api::at(serve.address("admin")), serve.address("ops"));
        let body = br#"{"type":"order.paid","id":"o","version":1}"#;
        Provider::of("shop").send(ingest, "msg_1", body).unwrap();
        let forged = Provider::signed("msg_2", b"another body");
        assert_eq!(Provider::of("shop").post(ingest, &forged, body).unwrap().status, 401);
        let trace = api.event("msg_1", "applied")["trace_id"].as_str().unwrap().to_owned();
        let lines = wait::until("both lines are logged", SOON, || {
            let with = |l: &String| l.contains(&trace);
            let lines: Vec<String> = serve.stderr().into_iter().filter(with).collect();
            if lines.len() >= 2 { Ok(lines) } else { Err(lines) }
        });
        for (line, message) in lines.iter().zip(["delivery accepted", "verdict"]) {
            let line: Value = serde_json::from_str(line).expect("JSON lines");
            assert_eq!((&line["message"], &line["trace"]), (&json!(message), &json!(trace)), "{line}");
        }
        let metrics = get(ops, "/metrics");
        for line in [
            "oncefold_ingest_deliveries_total{outcome=\"accepted\",source=\"shop\"} 1",
            "oncefold_ingest_deliveries_total{outcome=\"rejected\",source=\"shop\"} 1",
            "oncefold_worker_events_total{outcome=\"applied\",source=\"shop\"} 1",
            "oncefold_changes_total{entity=\"order\",verdict=\"applied\"} 1",
            "oncefold_queue_connected 1",
        ] {
            assert!(metrics.lines().any(|l| l == line), "{line}: {metrics}");
        }
        assert!(get(ops, "/healthz").contains("alive"));
        let ready: Value = serde_json::from_str(&get(ops, "/readyz")).unwrap();
        let parts = json!({"ingest": {"ready": true}, "worker": {"ready": true}, "admin": {"ready": true}});
        assert_eq!(ready, json!({"status": "ready", "parts": parts}));
        let stderr = serve.stderr().join("\n");
        assert!(!stderr.contains("v1,") && !stderr.contains(&Provider::secret()[6..]), "no signature, no secret");
    }
}

#[test]
fn a_soft_stop_finishes_and_a_second_signal_stops_now() {
    let deployment = Deployment::on(Backend::Fleet, &orders());
    for role in ["ingest", "worker", "admin", "serve"] {
        let mut process = deployment.start(&[role]);
        process.line_after("ops      http://");
        assert_eq!(process.stop(), Some(0), "{role}");
    }
    // A worker whose batch is stuck goes on trying to finish it; a second signal ends that.
    let (database, vhost) = (deployment.database.as_ref().unwrap(), deployment.vhost.as_ref().unwrap());
    let mut ingest = deployment.start(&["ingest"]);
    let body = br#"{"type":"order.paid","id":"o","version":1}"#;
    Provider::of("shop").send(ingest.address("intake"), "msg_1", body).unwrap();
    let locked = database.lock("events");
    let mut worker = deployment.start(&["worker"]);
    wait::until("the worker has it in hand", SOON, || match vhost.unacked("oncefold.work.shop") {
        Some(1) => Ok(()),
        other => Err(other),
    });
    worker.signal("TERM");
    wait::until("it is stopping", SOON, || {
        if worker.stderr().iter().any(|l| l.contains("stopping: ")) { Ok(()) } else { Err("not yet") }
    });
    assert!(worker.is_running(), "it finishes what is in hand");
    worker.signal("TERM");
    assert_eq!(worker.wait(), Some(0));
    drop(locked);
    let _worker = deployment.start(&["worker"]);
    let mut admin = deployment.start(&["admin"]);
    assert_eq!(Api::at(admin.address("admin")).event("msg_1", "applied")["attempts"], 1, "a stop is no attempt");
}

#[test]
fn a_worker_of_one_source_leaves_the_others_alone() {
    let two =
        format!("{}{}", orders(), orders().replace("shop", "other").replace("entity = \"order\"", "entity = \"item\""));
    let deployment = Deployment::on(Backend::Fleet, &two);
    let mut ingest = deployment.start(&["ingest"]);
    let address = ingest.address("intake");
    let body = br#"{"type":"order.paid","id":"o","version":1}"#;
    for source in ["shop", "other"] {
        assert_eq!(Provider::of(source).send(address, &format!("msg_{source}"), body).unwrap().status, 200);
    }
    let _worker = deployment.start(&["worker", "--source", "shop"]);
    let mut admin = deployment.start(&["admin"]);
    let api = Api::at(admin.address("admin"));
    api.event("msg_shop", "applied");
    wait::until("the other's event waits", SOON, || {
        match deployment.vhost.as_ref().unwrap().messages("oncefold.work.other") {
            Some(1) => Ok(()),
            other => Err(other),
        }
    });
    let _other = deployment.start(&["worker", "--source", "other"]);
    api.event("msg_other", "applied");
    let mut nobody = deployment.start(&["worker", "--source", "nobody"]);
    assert_eq!(nobody.wait(), Some(2));
}

#[test]
fn a_removed_source_is_parked_and_changed_rules_need_an_epoch() {
    for backend in [Backend::Embedded, Backend::Fleet] {
        let gone = orders().replace("shop", "gone").replace("entity = \"order\"", "entity = \"item\"");
        let mut deployment = Deployment::on(backend, &format!("{}{gone}", orders()));
        let mut serve = deployment.start(&["serve"]);
        let address = serve.address("intake");
        let body = br#"{"type":"order.paid","id":"o","version":1}"#;
        Provider::of("gone").send(address, "msg_before", body).unwrap();
        Api::at(serve.address("admin")).event("msg_before", "applied");
        assert_eq!(serve.stop(), Some(0));

        deployment.rewrite(&orders().replace("key = \"/id\"", "key = \"/other\""));
        let mut refused = deployment.start(&["serve"]);
        assert_eq!(refused.wait(), Some(2), "{backend:?}");
        assert!(refused.stderr().join("\n").contains("epoch = 2"), "{:?}", refused.stderr());
        deployment.rewrite(&orders());
        let mut serve = deployment.start(&["serve"]);
        let api = Api::at(serve.address("admin"));
        let names: Vec<_> =
            api.get("/sources")["items"].as_array().unwrap().iter().map(|s| s["name"].clone()).collect();
        assert_eq!(names, [json!("gone"), json!("shop")]);
        let id = api.event("msg_before", "applied")["id"].as_str().unwrap().to_owned();
        assert_eq!(api.post(&format!("/events/{id}/replay"), None).0, 202);
        let dead = api.event("msg_before", "dead");
        assert_eq!(dead["error"]["reason"], "config.unknown_source", "{dead}");
    }
}
