use crate::auth::{Access, Role};
use crate::routes::{self, Endpoint};
use crate::testing::{Harness, OPERATOR, VIEWER, request};
use axum::body::Body;
use http::Request;
use oncefold_core::Reason;
use oncefold_core::store::StoreError;
use oncefold_testkit::builders::change;
use oncefold_testkit::fakes::Fault;
use serde_json::Value;
use std::collections::BTreeSet;

/// contract.md, "Admin API", as far as this version goes.
const CONTRACT: [&str; 15] = [
    "GET /api/v1/dead-letters",
    "GET /api/v1/dead-letters/groups",
    "GET /api/v1/dead-letters/{id}",
    "GET /api/v1/entities",
    "GET /api/v1/entities/{entity}/{key}",
    "GET /api/v1/entities/{entity}/{key}/history",
    "GET /api/v1/events",
    "GET /api/v1/events/{id}",
    "GET /api/v1/events/{id}/body",
    "GET /api/v1/openapi.json",
    "GET /api/v1/rejected",
    "GET /api/v1/sources",
    "POST /api/v1/dead-letters/{id}/discard",
    "POST /api/v1/dead-letters/{id}/replay",
    "POST /api/v1/events/{id}/replay",
];

fn endpoints(harness: &Harness) -> Vec<Endpoint> {
    routes::all(&harness.api).endpoints
}

fn filled(path: &str, id: &str) -> String {
    path.replace("{id}", id).replace("{entity}", "order").replace("{key}", "k")
}

async fn document(harness: &Harness) -> Value {
    harness.send(Request::get("/api/v1/openapi.json").body(Body::empty()).unwrap()).await.json()
}

#[test]
fn the_endpoints_are_those_of_the_contract() {
    let listed: BTreeSet<_> = endpoints(&Harness::start()).iter().map(|e| format!("{} {}", e.method, e.path)).collect();
    assert_eq!(listed, CONTRACT.map(String::from).into());
}

/// Every endpoint × every kind of caller. What a caller may do is decided before anything is read, so a refusal
/// leaves no trace in the store.
#[tokio::test]
async fn every_endpoint_asks_for_its_role() {
    let harness = Harness::start();
    for endpoint in endpoints(&harness) {
        let callers = [
            (None, None),
            (Some("wrong"), None),
            (Some(VIEWER), Some(Role::Viewer)),
            (Some(OPERATOR), Some(Role::Operator)),
        ];
        for (number, (token, role)) in callers.into_iter().enumerate() {
            let id = harness
                .dead("shop", &format!("{}-{}-{number}", endpoint.method, endpoint.path), Reason::MissingKey)
                .await;
            harness
                .applied(&format!("a-{}-{}-{number}", endpoint.method, endpoint.path), 0, vec![change("k", 1).build()])
                .await;
            let mut asked = Request::builder().method(&endpoint.method).uri(filled(&endpoint.path, &id.to_string()));
            if let Some(token) = token {
                asked = asked.header("authorization", format!("Bearer {token}"));
            }
            let body = if endpoint.path.ends_with("discard") { r#"{"reason":"why"}"# } else { "" };
            let before = harness.store.audit().len();
            let reply = harness.send(asked.body(Body::from(body)).unwrap()).await;
            let case = format!("{} {} as {token:?}: {reply:?}", endpoint.method, endpoint.path);
            let allowed = match endpoint.access {
                Access::Open => true,
                Access::AtLeast(needed) => role.is_some_and(|role| role >= needed),
            };
            if allowed {
                assert!(reply.status.is_success(), "{case}");
            } else if role.is_some() {
                reply.problem(403, "forbidden");
            } else {
                reply.problem(401, "unauthorized");
                assert!(reply.header("www-authenticate").starts_with("Bearer"), "{case}");
            }
            let changed = harness.store.audit().len() - before;
            assert_eq!(changed, usize::from(allowed && endpoint.method == "POST"), "{case}");
            assert_eq!(reply.header("cache-control"), "no-store", "{case}");
            assert_eq!(reply.header("access-control-allow-origin"), "", "{case}");
        }
    }
}

/// Nothing that changes anything is open to a viewer, and only the document is open to all.
#[test]
fn changes_are_for_operators() {
    for endpoint in endpoints(&Harness::start()) {
        let expected = match (endpoint.method.as_str(), endpoint.path.as_str()) {
            ("GET", "/api/v1/openapi.json") => Access::Open,
            ("GET", _) => Access::AtLeast(Role::Viewer),
            _ => Access::AtLeast(Role::Operator),
        };
        assert_eq!(endpoint.access, expected, "{} {}", endpoint.method, endpoint.path);
    }
}

/// HEAD is answered wherever GET is, and asks for as much.
#[tokio::test]
async fn head_asks_for_the_same_role() {
    let harness = Harness::start();
    let head = |token| request("HEAD", "/api/v1/events", token).body(Body::empty()).unwrap();
    assert_eq!(harness.send(head("wrong")).await.status, 401);
    assert_eq!(harness.send(head(VIEWER)).await.status, 200);
}

#[tokio::test]
async fn the_document_lists_exactly_the_endpoints() {
    let harness = Harness::start();
    let document = document(&harness).await;
    assert!(document["openapi"].as_str().unwrap().starts_with("3."));
    let mut listed = BTreeSet::new();
    let mut ids = BTreeSet::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            listed.insert(format!("{} {path}", method.to_uppercase()));
            assert!(ids.insert(operation["operationId"].to_string()), "{operation}");
            let open = path.ends_with("openapi.json");
            assert_eq!(operation["security"].is_null(), open, "{path}");
            assert_eq!(operation["responses"]["401"].is_null(), open, "{path}");
            let keyed = operation["parameters"]
                .as_array()
                .is_some_and(|all| all.iter().any(|p| p["name"] == "Idempotency-Key"));
            assert_eq!(keyed, method == "post", "{path}");
            let named: BTreeSet<_> = operation["parameters"]
                .as_array()
                .into_iter()
                .flatten()
                .filter(|p| p["in"] == "path")
                .map(|p| format!("{{{}}}", p["name"].as_str().unwrap()))
                .collect();
            let in_path = path.split('/').filter(|part| part.starts_with('{')).map(String::from).collect();
            assert_eq!(named, in_path, "{path}");
        }
    }
    assert_eq!(listed, CONTRACT.map(String::from).into());
}

#[tokio::test]
async fn every_reference_of_the_document_resolves() {
    let document = document(&Harness::start()).await;
    let text = document.to_string();
    let mut seen = 0;
    for reference in text.split("\"$ref\":\"#").skip(1) {
        let pointer = reference.split('"').next().unwrap();
        assert!(document.pointer(pointer).is_some(), "{pointer}");
        seen += 1;
    }
    assert!(seen > 30, "{seen}");
    assert_eq!(document["components"]["securitySchemes"]["token"]["scheme"], "bearer");
}

/// What is documented is taken, what is not is refused by name.
#[tokio::test]
async fn lists_take_exactly_the_documented_parameters() {
    let harness = Harness::start();
    harness.applied("a", 0, vec![change("k", 1).build()]).await;
    let document = document(&harness).await;
    let value = |name: &str| match name {
        "limit" => "7".to_owned(),
        "deleted" => "true".to_owned(),
        "status" => "applied".to_owned(),
        "reason" => "mapping.missing_id".to_owned(),
        "since" | "until" => "2026-01-01T00:00:00Z".to_owned(),
        "entity" => "order".to_owned(),
        "source" => "shop".to_owned(),
        _ => "x".to_owned(),
    };
    let mut checked = 0;
    for (path, item) in document["paths"].as_object().unwrap() {
        let Some(parameters) = item["get"]["parameters"].as_array() else { continue };
        let path = filled(path, "x");
        for name in parameters.iter().filter(|p| p["in"] == "query").map(|p| p["name"].as_str().unwrap()) {
            checked += 1;
            let reply = harness.get(&format!("{path}?{name}={}", value(name))).await;
            if name == "cursor" {
                let problem = reply.problem(400, "bad-parameter");
                assert_eq!(problem["parameter"], "cursor", "{path}: {problem}");
            } else {
                assert_eq!(reply.status, 200, "{path}?{name}");
            }
            let twice = harness.get(&format!("{path}?{name}={0}&{name}={0}", value(name))).await;
            assert_eq!(twice.problem(400, "bad-parameter")["parameter"], name);
        }
        if path.ends_with('s') || path.ends_with("history") {
            let problem = harness.get(&format!("{path}?staus=dead")).await.problem(400, "bad-parameter");
            assert_eq!(problem["parameter"], "staus", "{path}");
        }
    }
    assert_eq!(checked, 10 + 7 + 5 + 2 + 3);
}

#[tokio::test]
async fn what_is_not_there_is_a_problem() {
    let harness = Harness::start();
    for path in [
        "/",
        "/api",
        "/api/v1",
        "/api/v1/",
        "/api/v1/nothing",
        "/api/v2/events",
        "/api/v1/events/",
        "/api/v1/entities/order/",
        "/api/v1/entities/order/a/b/c",
        "/api/v1/replays",
        "/api/v1/effects",
        "/api/v1/audit",
        "/api/v1/reconciliations",
    ] {
        harness.get(path).await.problem(404, "not-found");
    }
    for path in ["/api/v1/replays", "/api/v1/discards", "/api/v1/sources/shop/pause"] {
        harness.post(path, "{}").await.problem(404, "not-found");
    }
}

#[tokio::test]
async fn a_wrong_method_is_told_the_right_ones() {
    let harness = Harness::start();
    for (method, path, allow) in [
        ("DELETE", "/api/v1/events", "GET,HEAD"),
        ("POST", "/api/v1/dead-letters", "GET,HEAD"),
        ("GET", "/api/v1/events/x/replay", "POST"),
        ("OPTIONS", "/api/v1/entities", "GET,HEAD"),
        ("PUT", "/api/v1/openapi.json", "GET,HEAD"),
    ] {
        let reply = harness.send(request(method, path, OPERATOR).body(Body::empty()).unwrap()).await;
        reply.problem(405, "method-not-allowed");
        assert_eq!(reply.header("allow"), allow, "{method} {path}");
    }
}

/// A store that is away is the caller's to ask again; one that fails is ours. Neither cause is shown.
#[tokio::test]
async fn a_store_that_fails_is_told_apart() {
    let secret = "password=hunter2";
    type Fails = fn(String) -> StoreError;
    let faults: [(Fails, u16, &str); 4] = [
        (StoreError::Unavailable, 503, "unavailable"),
        (StoreError::Conflict, 503, "unavailable"),
        (StoreError::Failed, 500, "internal"),
        (StoreError::Refused, 500, "internal"),
    ];
    let harness = Harness::start();
    for (fault, status, slug) in faults {
        harness.store.with_faults(|faults| {
            faults.hook = Some(Box::new(move |_| Some(Fault::Before(fault(secret.to_owned())))));
        });
        let id = "019b7d2f-0000-7000-8000-000000000000";
        for endpoint in endpoints(&harness).iter().filter(|endpoint| endpoint.access != Access::Open) {
            let body = if endpoint.path.ends_with("discard") { r#"{"reason":"why"}"# } else { "" };
            let asked = request(endpoint.method.as_str(), &filled(&endpoint.path, id), OPERATOR);
            let reply = harness.send(asked.body(Body::from(body)).unwrap()).await;
            let problem = reply.problem(status, slug);
            assert_eq!(reply.header("retry-after").is_empty(), status != 503, "{}", endpoint.path);
            assert!(!problem.to_string().contains("hunter2"), "{problem}");
        }
    }
}

/// The shapes of the document are those that are answered.
#[tokio::test]
async fn answers_have_the_documented_fields() {
    let harness = Harness::start();
    let applied = harness.applied("a", 0, vec![change("k", 1).build()]).await;
    let dead = harness.dead("shop", "d", Reason::MissingKey).await;
    harness.rejected().await;
    let document = document(&harness).await;
    let item = |path: String| {
        let harness = &harness;
        async move { harness.get(&path).await.json()["items"][0].clone() }
    };
    let get = |path: String| {
        let harness = &harness;
        async move { harness.get(&path).await.json() }
    };
    let event = get(format!("/api/v1/events/{applied}")).await;
    let letter = get(format!("/api/v1/dead-letters/{dead}")).await;
    for (schema, shown) in [
        ("Source", item("/api/v1/sources".into()).await),
        ("Event", event.clone()),
        ("EventChange", event["changes"][0].clone()),
        ("EventPage", get("/api/v1/events".into()).await),
        ("DeadLetter", letter.clone()),
        ("Failure", letter["error"].clone()),
        ("Attempt", letter["attempt_history"][0].clone()),
        ("DeadLetterGroup", item("/api/v1/dead-letters/groups".into()).await),
        ("Entity", item("/api/v1/entities".into()).await),
        ("HistoryItem", item("/api/v1/entities/order/k/history".into()).await),
        ("Rejected", item("/api/v1/rejected".into()).await),
        ("Problem", get("/api/v1/nothing".into()).await),
    ] {
        let shown: BTreeSet<_> =
            shown.as_object().unwrap_or_else(|| panic!("{schema}: {shown}")).keys().cloned().collect();
        assert_eq!(shown, properties(&document, &document["components"]["schemas"][schema]), "{schema}");
    }
}

fn properties(document: &Value, schema: &Value) -> BTreeSet<String> {
    let mut found: BTreeSet<String> =
        schema["properties"].as_object().into_iter().flatten().map(|(n, _)| n.clone()).collect();
    for part in schema["allOf"].as_array().into_iter().flatten() {
        found.extend(properties(document, part));
    }
    if let Some(reference) = schema["$ref"].as_str() {
        found.extend(properties(document, document.pointer(&reference[1..]).unwrap()));
    }
    found
}
