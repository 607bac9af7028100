use crate::fakes::{Behaviour, Counting, StoppedClock, fake};
use crate::intake::receive;
use crate::server::intake_of;
use crate::settings::{IngestParts, IngestSettings, IntakeSource, Respond, SourceKeys};
use bytes::Bytes;
use http::{Method, Request};
use http_body_util::Full;
use oncefold_core::locator::Locator;
use oncefold_core::model::{BodyFormat, IdRule};
use oncefold_core::{Source, SourceName};
use oncefold_signature::{Scheme, TrustRoots};
use oncefold_telemetry::Metrics;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::time::timeout;

fn source() -> IntakeSource {
    IntakeSource {
        model: Source {
            name: SourceName::parse("shop").unwrap(),
            id: IdRule::BodyDigest,
            event_type: Locator::parse("/type").unwrap(),
            format: BodyFormat::Json,
            projections: vec![],
        },
        keys: SourceKeys {
            verifier: Scheme::None.prepare(&[]).unwrap(),
            scheme_name: "none".to_owned(),
            secrets: vec![],
            handshake: None,
        },
        split: None,
        takes_gzip: false,
        methods: vec![Method::POST],
        respond: Respond::default(),
        public_url: None,
        path_token: false,
        redact_headers: vec![],
        redact_query: vec![],
    }
}

/// The HTTP library drops a request's future when its connection breaks; what was received whole is kept all the same.
#[tokio::test]
async fn a_request_whose_future_is_dropped_is_kept_counted_and_given_back() {
    let gate = Arc::new(Semaphore::new(0));
    let queue = fake(Behaviour::Gate(Arc::clone(&gate)));
    let metrics = Arc::new(Metrics::register("0").unwrap());
    let mut settings = IngestSettings::listening_on(SocketAddr::from(([127, 0, 0, 1], 0)));
    settings.publish_timeout = Duration::from_secs(60);
    let (intake, ..) = intake_of(IngestParts {
        settings,
        sources: vec![source()],
        publisher: Arc::<crate::fakes::Fake>::clone(&queue),
        spool: None,
        rejected: None,
        outbound: None,
        roots: TrustRoots::of([]),
        clock: Arc::new(StoppedClock),
        entropy: Arc::new(Counting::default()),
        metrics: Arc::clone(&metrics),
    })
    .unwrap();
    let intake = Arc::new(intake);
    let free = intake.body_limits.in_hand.available_permits();
    let request = Request::post("/in/shop").body(Full::new(Bytes::from_static(b"{}"))).unwrap();
    let mut answer = Box::pin(receive(Arc::clone(&intake), request));
    tokio::select! {
        _ = &mut answer => panic!("answered before the queue confirmed"),
        () = async { while queue.entered() == 0 { tokio::task::yield_now().await } } => {}
    }
    drop(answer);
    gate.add_permits(1);
    intake.tasks.close();
    timeout(Duration::from_secs(10), intake.tasks.wait()).await.expect("it ends");
    assert_eq!(queue.taken().len(), 1);
    assert_eq!(metrics.ingest_deliveries.with_label_values(&["shop", "accepted"]).get(), 1);
    assert_eq!(metrics.ingest_deliveries.with_label_values(&["shop", "disconnected"]).get(), 0);
    assert_eq!(intake.body_limits.in_hand.available_permits(), free);
}
