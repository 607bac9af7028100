//! The failure matrix of ARCHITECTURE.md: what fails, what intake answers, what happens then (P1, P4).

use crate::first_look::orders;
use oncefold_e2e::{Api, Backend, Deployment, Provider, Weather, wait};
use serde_json::json;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// Deliveries that end without a verdict before the broker gives a message up (ARCHITECTURE.md, decision 7).
const DELIVERY_LIMIT: usize = 20;
const SOON: Duration = Duration::from_secs(30);

fn body(n: usize) -> Vec<u8> {
    json!({"type": "order.paid", "id": format!("ord_{n}"), "version": n}).to_string().into_bytes()
}

/// Sends so many; every one has to be acked.
fn all_acked(provider: &Provider, ingest: std::net::SocketAddr, range: std::ops::Range<usize>) {
    for n in range {
        let reply = provider.send(ingest, &format!("msg_{n}"), &body(n)).unwrap();
        assert_eq!(reply.status, 200, "msg_{n}: {}", reply.body);
    }
}

fn broker_fails(fail: fn(&Weather)) {
    let deployment = Deployment::on(Backend::Fleet, &orders());
    let broker = Weather::before(&deployment.vhost.as_ref().unwrap().url());
    let deployment = deployment.through(None, Some(broker.url()));
    let mut serve = deployment.start(&["serve"]);
    let (ingest, api) = (serve.address("intake"), Api::at(serve.address("admin")));
    let provider = Provider::of("shop");
    all_acked(&provider, ingest, 0..5);
    api.settled("", 5, SOON);

    fail(&broker);
    let began = Instant::now();
    all_acked(&provider, ingest, 5..45);
    // Each of the first few may wait for the confirm timeout of 2 s; then nothing waits for a broker known to be away.
    assert!(began.elapsed() < Duration::from_secs(20), "40 deliveries took {:?}", began.elapsed());
    let spooled = deployment.database.as_ref().unwrap().sql("SELECT count(*) FROM spool");
    assert!(spooled.parse::<u32>().unwrap() >= 35, "{spooled} are spooled");

    broker.restore();
    let events = api.settled("", 45, Duration::from_secs(60));
    assert!(events.iter().all(|e| e["status"] == "applied" && e["attempts"] == 1), "{events:?}");
    wait::until("the spool is empty", SOON, || {
        match deployment.database.as_ref().unwrap().sql("SELECT count(*) FROM spool").as_str() {
            "0" => Ok(()),
            left => Err(left.to_owned()),
        }
    });
}

#[test]
fn broker_gone_is_spooled_and_relayed() {
    broker_fails(Weather::cut);
}

#[test]
fn broker_frozen_is_spooled_and_relayed() {
    broker_fails(Weather::stall);
}

#[test]
fn intake_starts_without_a_broker() {
    let deployment = Deployment::on(Backend::Fleet, &orders());
    let broker = Weather::before(&deployment.vhost.as_ref().unwrap().url());
    let deployment = deployment.through(None, Some(broker.url()));
    broker.cut();
    let mut ingest = deployment.start(&["ingest"]);
    all_acked(&Provider::of("shop"), ingest.address("intake"), 0..3);
    let _worker = deployment.start(&["worker"]);
    let mut admin = deployment.start(&["admin"]);
    let api = Api::at(admin.address("admin"));
    assert_eq!(api.get("/events")["items"], json!([]));
    broker.restore();
    api.settled("", 3, Duration::from_secs(60));
}

#[test]
fn database_gone_is_no_attempt() {
    let deployment = Deployment::on(Backend::Fleet, &orders());
    let database = Weather::before(&deployment.database.as_ref().unwrap().url());
    let deployment = deployment.through(Some(database.url()), None);
    let mut serve = deployment.start(&["serve"]);
    let (ingest, api) = (serve.address("intake"), Api::at(serve.address("admin")));
    let provider = Provider::of("shop");
    all_acked(&provider, ingest, 0..5);
    api.settled("", 5, SOON);

    database.cut();
    all_acked(&provider, ingest, 5..25);
    let ops = serve.address("ops");
    wait::until("the worker says that it is not ready", SOON, || {
        let (status, text) = ready(ops);
        if status == 503 && text.contains("\"worker\":{\"ready\":false") { Ok(()) } else { Err(text) }
    });
    let (status, _) = api.try_get("/events");
    assert_eq!(status, 503);

    database.restore();
    let events = api.settled("", 25, Duration::from_secs(60));
    assert!(events.iter().all(|e| e["status"] == "applied" && e["attempts"] == 1), "{events:?}");
    wait::until("everything is ready again", SOON, || match ready(ops) {
        (200, _) => Ok(()),
        (_, text) => Err(text),
    });
}

/// A frozen database answers nothing and closes nothing: it counts as away after the deadline for its answers.
#[test]
fn database_frozen_is_no_attempt() {
    let deployment = Deployment::on(Backend::Fleet, &orders());
    let database = Weather::before(&deployment.database.as_ref().unwrap().url());
    let deployment = deployment.through(Some(database.url()), None);
    let mut serve = deployment.start(&["serve"]);
    let (ingest, api, ops) = (serve.address("intake"), Api::at(serve.address("admin")), serve.address("ops"));
    let provider = Provider::of("shop");
    all_acked(&provider, ingest, 0..5);
    api.settled("", 5, SOON);
    database.stall();
    all_acked(&provider, ingest, 5..25);
    wait::until("the worker says that it is not ready", Duration::from_secs(60), || match ready(ops) {
        (503, text) if text.contains("\"worker\":{\"ready\":false") => Ok(()),
        (_, text) => Err(text),
    });
    database.restore();
    let events = api.settled("", 25, Duration::from_secs(60));
    assert!(events.iter().all(|e| e["status"] == "applied" && e["attempts"] == 1), "{events:?}");
}

/// A database that only reads, as one that became a standby: not ready, with the reason; once it writes, all goes on.
#[test]
fn database_read_only_is_no_attempt() {
    let deployment = Deployment::on(Backend::Fleet, &orders());
    let database = deployment.database.as_ref().unwrap();
    let mut serve = deployment.start(&["serve"]);
    let (ingest, api, ops) = (serve.address("intake"), Api::at(serve.address("admin")), serve.address("ops"));
    let provider = Provider::of("shop");
    all_acked(&provider, ingest, 0..5);
    api.settled("", 5, SOON);
    let name = database.sql("SELECT current_database()");
    database.sql(&format!("ALTER DATABASE {name} SET default_transaction_read_only = on"));
    // Sessions have what was set when they began.
    database.sql(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
         WHERE datname = current_database() AND pid <> pg_backend_pid()",
    );
    all_acked(&provider, ingest, 5..25);
    wait::until("worker and admin say why they are not ready", SOON, || {
        let (status, text) = ready(ops);
        let answer: serde_json::Value = serde_json::from_str(&text).unwrap();
        let says_so = |part: &str| {
            let part = &answer["parts"][part];
            part["ready"] == false && part["reason"].as_str().is_some_and(|reason| reason.contains("read-only"))
        };
        if status == 503 && says_so("worker") && says_so("admin") { Ok(()) } else { Err(text) }
    });
    database.sql(&format!("BEGIN READ WRITE; ALTER DATABASE {name} RESET default_transaction_read_only; COMMIT"));
    let events = api.settled("", 25, Duration::from_secs(60));
    assert!(events.iter().all(|e| e["status"] == "applied" && e["attempts"] == 1), "{events:?}");
    wait::until("everything is ready again", SOON, || match ready(ops) {
        (200, _) => Ok(()),
        (_, text) => Err(text),
    });
}

fn ready(ops: std::net::SocketAddr) -> (u16, String) {
    let config = ureq::Agent::config_builder().http_status_as_error(false).build();
    let mut answer = ureq::Agent::from(config).get(format!("http://{ops}/readyz")).call().unwrap();
    (answer.status().as_u16(), answer.body_mut().read_to_string().unwrap())
}

#[test]
fn both_gone_is_503_and_nothing_is_lost() {
    let deployment = Deployment::on(Backend::Fleet, &orders());
    let database = Weather::before(&deployment.database.as_ref().unwrap().url());
    let broker = Weather::before(&deployment.vhost.as_ref().unwrap().url());
    let deployment = deployment.through(Some(database.url()), Some(broker.url()));
    let mut serve = deployment.start(&["serve"]);
    let (ingest, api) = (serve.address("intake"), Api::at(serve.address("admin")));
    let provider = Provider::of("shop");
    all_acked(&provider, ingest, 0..2);
    api.settled("", 2, SOON);
    database.cut();
    broker.cut();
    let reply = wait::until("503", SOON, || match provider.send(ingest, "msg_2", &body(2)) {
        Ok(reply) if reply.status == 503 => Ok(reply),
        other => Err(format!("{other:?}")),
    });
    assert!(reply.body.contains("\"status\":503"), "{}", reply.body);
    wait::until("intake says that it is not ready", SOON, || match ready(serve.address("ops")) {
        (503, text) if text.contains("\"ingest\":{\"ready\":false") => Ok(()),
        (_, text) => Err(text),
    });
    database.restore();
    broker.restore();
    provider.deliver(&|| ingest, "msg_2", &body(2));
    api.event("msg_2", "applied");
}

/// Every broker counts the deliveries that a dying consumer held. Killed often enough, all of them reach the limit
/// together with whatever killed it: each is then tried alone, so that no innocent neighbour dies.
#[test]
fn neighbours_of_a_poison_message_do_not_die() {
    let deployment = Deployment::on(Backend::Fleet, &orders());
    let (database, vhost) = (deployment.database.as_ref().unwrap(), deployment.vhost.as_ref().unwrap());
    let mut ingest = deployment.start(&["ingest"]);
    all_acked(&Provider::of("shop"), ingest.address("intake"), 0..12);
    // A worker that cannot write holds what it prefetched; killed, it gives back with the count raised.
    let locked = database.lock("events");
    let waiting = || {
        database.sql(
            "SELECT pid FROM pg_locks JOIN pg_stat_activity USING (pid) \
             WHERE relation = 'events'::regclass AND NOT granted AND query ILIKE '%INSERT INTO events%'",
        )
    };
    let mut seen: BTreeSet<String> = BTreeSet::new();
    for _ in 0..DELIVERY_LIMIT + 1 {
        let mut worker = deployment.start(&["worker"]);
        // A session that waits to record events is this worker's, with the messages in hand.
        let session = wait::until("the worker holds the messages", SOON, || {
            let sessions = waiting();
            let fresh = sessions.lines().find(|pid| !seen.contains(*pid)).map(str::to_owned);
            fresh.ok_or(sessions)
        });
        seen.insert(session);
        worker.kill();
        // It may have had two; PostgreSQL finds out that their client is gone once they need not wait any more.
        seen.extend(waiting().lines().map(str::to_owned));
    }
    // Messages, of which one may carry several events.
    wait::until("all of them are letters", SOON, || {
        match (vhost.messages("oncefold.work.shop"), vhost.messages("oncefold.dead")) {
            (Some(0), Some(1..)) => Ok(()),
            other => Err(other),
        }
    });
    drop(locked);
    let _worker = deployment.start(&["worker"]);
    let mut admin = deployment.start(&["admin"]);
    let events = Api::at(admin.address("admin")).settled("", 12, Duration::from_secs(60));
    assert!(events.iter().all(|e| e["status"] == "applied" && e["attempts"] == 1), "{events:?}");
}

#[test]
fn a_schema_behind_the_binary_refuses_to_start() {
    let deployment = Deployment::on(Backend::Fleet, &orders());
    let database = deployment.database.as_ref().unwrap();
    database.sql("DROP SCHEMA public CASCADE; CREATE SCHEMA public");
    for role in ["serve", "ingest", "worker", "admin"] {
        let mut process = deployment.start(&[role]);
        assert_eq!(process.wait(), Some(2), "{role}");
        let stderr = process.stderr().join("\n");
        assert!(stderr.contains("run `oncefold migrate`"), "{role}: {stderr}");
    }
    let check = deployment.cli(&["migrate", "--check"]);
    assert_eq!(check.status.code(), Some(1));
    assert_eq!(deployment.cli(&["migrate"]).status.code(), Some(0));
    assert_eq!(deployment.cli(&["migrate", "--check"]).status.code(), Some(0));
}

#[test]
fn roles_of_their_own_need_a_fleet() {
    let deployment = Deployment::on(Backend::Embedded, &orders());
    for role in ["ingest", "worker", "admin"] {
        let mut process = deployment.start(&[role]);
        assert_eq!(process.wait(), Some(2), "{role}");
        assert!(process.stderr().join("\n").contains("oncefold serve"), "{role}");
    }
}

#[test]
fn one_file_has_one_serve() {
    let deployment = Deployment::on(Backend::Embedded, &orders());
    let mut first = deployment.start(&["serve"]);
    first.line_after("ops      http://");
    let mut second = deployment.start(&["serve"]);
    assert_eq!(second.wait(), Some(2));
    assert!(second.stderr().join("\n").contains("another `oncefold serve`"), "{:?}", second.stderr());
    first.kill();
    let mut third = deployment.start(&["serve"]);
    third.line_after("ops      http://");
    assert_eq!(third.stop(), Some(0), "a killed one leaves nothing behind");
}
