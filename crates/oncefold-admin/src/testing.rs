//! The API over stores in memory, asked without a network.

use crate::api::{Api, Diagnose, SharedApi};
use crate::auth::{AdminToken, Role, hash_token};
use crate::routes;
use axum::body::{Body, Bytes, to_bytes};
use http::{HeaderMap, Request, StatusCode};
use hyper::service::Service as _;
use hyper_util::service::TowerToHyperService;
use oncefold_core::store::{ApplyStore as _, Prune, RejectedDelivery, RejectedRequest, RejectedStore as _};
use oncefold_core::store::{DutyStore as _, RulesStore as _};
use oncefold_core::{Change, Clock, EventUuid, Facts, Reason, Timestamp};
use oncefold_telemetry::Metrics;
use oncefold_testkit::builders::{self, START, applies, at, dies, item, message, retries};
use oncefold_testkit::fakes::{FakeQueue, FakeStore};
use serde_json::Value;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio_util::task::TaskTracker;

pub const VIEWER: &str = "look-and-see";
pub const OPERATOR: &str = "do-as-told";

/// A clock that stands until it is put forward.
pub struct StandingClock(Mutex<Timestamp>);

impl StandingClock {
    pub fn at_start() -> Self {
        Self(Mutex::new(START))
    }

    pub fn forward(&self, by: Duration) {
        let mut now = self.0.lock().unwrap();
        *now = now.plus(by);
    }
}

impl Clock for StandingClock {
    fn now(&self) -> Timestamp {
        *self.0.lock().unwrap()
    }
}

/// Tokens of one viewer and two operators.
pub fn tokens() -> Vec<AdminToken> {
    let token = |name: &str, role, secret: &str| AdminToken { name: name.to_owned(), role, sha256: hash_token(secret) };
    vec![
        token("vera", Role::Viewer, VIEWER),
        token("otto", Role::Operator, OPERATOR),
        token("olga", Role::Operator, "do-as-told-too"),
    ]
}

/// What was answered.
#[derive(Debug)]
pub struct Reply {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Reply {
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    /// The problem, which must have this status and type.
    #[track_caller]
    pub fn problem(&self, status: u16, slug: &str) -> Value {
        let problem = self.json();
        assert_eq!(self.status, status, "{problem}");
        assert_eq!(self.header("content-type"), "application/problem+json");
        assert_eq!(problem["status"], status);
        assert_eq!(problem["type"], format!("urn:oncefold:problem:{slug}"), "{problem}");
        assert!(problem["title"].is_string() && problem["detail"].is_string(), "{problem}");
        problem
    }

    /// A field of each item of a page.
    #[track_caller]
    pub fn each(&self, field: &str) -> Vec<String> {
        let page = self.json();
        assert_eq!(self.status, 200, "{page}");
        page["items"].as_array().unwrap().iter().map(|item| item[field].as_str().unwrap().to_owned()).collect()
    }
}

/// Explains by saying the method.
struct Echo;

impl Diagnose for Echo {
    fn diagnose(&self, delivery: &RejectedDelivery) -> Vec<String> {
        vec![format!("it was a {}", delivery.request.method)]
    }
}

/// The API and what is behind it.
pub struct Harness {
    pub api: SharedApi,
    pub store: FakeStore,
    pub queue: FakeQueue,
    pub clock: Arc<StandingClock>,
    router: axum::Router,
}

impl Harness {
    pub fn start() -> Self {
        let (store, queue, clock) = (FakeStore::default(), FakeQueue::default(), Arc::new(StandingClock::at_start()));
        let api = Arc::new(Api {
            read: Arc::new(store.clone()),
            rejected: Arc::new(store.clone()),
            diagnose: Some(Arc::new(Echo)),
            act: Arc::new(store.clone()),
            queue: Some(Arc::new(queue.clone())),
            clock: clock.clone(),
            metrics: Arc::new(Metrics::register("0").unwrap()),
            configured_sources: vec![builders::source("shop")],
            tokens: tokens(),
            mutations: TaskTracker::new(),
        });
        let router = routes::all(&api).into_router();
        Self { api, store, queue, clock, router }
    }

    pub async fn send(&self, request: Request<Body>) -> Reply {
        let response = TowerToHyperService::new(self.router.clone()).call(request).await.unwrap();
        let (parts, body) = response.into_parts();
        Reply { status: parts.status, headers: parts.headers, body: to_bytes(body, usize::MAX).await.unwrap() }
    }

    /// GET as the viewer.
    pub async fn get(&self, path: &str) -> Reply {
        self.send(request("GET", path, VIEWER).body(Body::empty()).unwrap()).await
    }

    /// POST as the operator otto.
    pub async fn post(&self, path: &str, body: &str) -> Reply {
        self.send(request("POST", path, OPERATOR).body(Body::from(body.to_owned())).unwrap()).await
    }

    async fn apply(&self, message: &oncefold_core::Message, prepared: oncefold_core::prepare::Prepared) -> EventUuid {
        self.store.register(std::slice::from_ref(&message.source), &[], START).await.unwrap();
        self.store.apply(builders::batch(at(60), vec![item(message, prepared)])).await.unwrap();
        message.id
    }

    /// An event that was applied with these changes, received so many seconds after the start.
    pub async fn applied(&self, event_id: &str, seconds: u64, changes: Vec<Change>) -> EventUuid {
        let message = message("shop", event_id, event_id.to_owned()).received_at(at(seconds)).build();
        self.apply(&message, applies(changes)).await
    }

    /// An applied event with this body and content type.
    pub async fn with_body(&self, event_id: &str, body: Bytes, content_type: Option<&str>) -> EventUuid {
        let headers = vec![("x-a".to_owned(), "1".to_owned()), ("x-a".to_owned(), "2".to_owned())];
        let facts = Facts { content_type: content_type.map(str::to_owned), headers, ..Facts::default() };
        self.apply(&message("shop", event_id, body).facts(&facts).build(), applies(vec![])).await
    }

    /// A dead letter.
    pub async fn dead(&self, source: &str, event_id: &str, reason: Reason) -> EventUuid {
        self.apply(&message(source, event_id, event_id.to_owned()).build(), dies(reason)).await
    }

    /// An event that is retrying.
    pub async fn retrying(&self, event_id: &str) -> EventUuid {
        self.apply(&message("shop", event_id, event_id.to_owned()).build(), retries(at(3_600))).await
    }

    /// A delivery that did not verify.
    pub async fn rejected(&self) {
        let delivery = RejectedDelivery {
            source: builders::source("shop"),
            at: START,
            reason: "missing_header".to_owned(),
            detail: "header svix-id is missing".to_owned(),
            request: RejectedRequest { method: "PUT".to_owned(), ..RejectedRequest::default() },
            body: None,
        };
        self.store.record_rejected(&[delivery]).await.unwrap();
    }

    /// Drops the bodies of settled events.
    pub async fn drop_bodies(&self) {
        let prune = Prune { now: at(7200), bodies_before: at(7200), ids_before: START, limit: 1_000 };
        self.store.prune(&prune).await.unwrap();
    }
}

/// A request with a token.
pub fn request(method: &str, path: &str, token: &str) -> http::request::Builder {
    Request::builder().method(method).uri(path).header("authorization", format!("Bearer {token}"))
}
