//! The rejected log: what did not verify, bounded, without secrets, and never in anybody's way.

use crate::fakes::NOW_S;
use crate::harness::{Intake, SECRET, Setup, TOKEN, eventually, post, signed, source, svix, svix_lines, token};
use async_trait::async_trait;
use oncefold_core::limits::REJECTED_BODY_BYTES_MAX;
use oncefold_core::store::{RejectedDelivery, RejectedRecord, RejectedStore, StoreError};
use oncefold_signature::TokenPlace;
use std::future::pending;
use std::sync::{Arc, Mutex};
use tokio::time::Instant;

/// A log in memory; or one that never answers.
#[derive(Default)]
struct Log {
    kept: Mutex<Vec<RejectedDelivery>>,
    hangs: bool,
}

#[async_trait]
impl RejectedStore for Log {
    async fn record_rejected(&self, deliveries: &[RejectedDelivery]) -> Result<(), StoreError> {
        if self.hangs {
            pending::<()>().await;
        }
        self.kept.lock().unwrap().extend_from_slice(deliveries);
        Ok(())
    }

    async fn rejected(&self, _: Option<&str>, _: Option<i64>, _: u32) -> Result<Vec<RejectedRecord>, StoreError> {
        Ok(vec![])
    }
}

async fn start(hangs: bool, names: [&str; 2]) -> (Intake, Arc<Log>) {
    let log = Arc::new(Log { hangs, ..Log::default() });
    let tokened = source(names[1], &token(TokenPlace::Query("key".to_owned())), TOKEN);
    let mut setup = Setup::of(vec![source(names[0], &svix(), SECRET), tokened]);
    setup.rejected = Some(Arc::<Log>::clone(&log) as _);
    (setup.start().await, log)
}

#[tokio::test]
async fn what_did_not_verify_is_kept_with_what_explains_it() {
    let (intake, log) = start(false, ["r-svix", "r-token"]).await;
    let body = b"{\"id\": 1}\xFF";
    let old = intake.ask(&post("/in/r-svix?a=1", &svix_lines(body, NOW_S - 301), body)).await;
    assert_eq!(old.status, 401);
    assert_eq!(intake.ask(&signed("/in/r-svix", b"{}")).await.status, 200);
    let line = format!("Authorization: {TOKEN}\r\n");
    assert_eq!(intake.ask(&post("/in/r-token?key=wrong-t0ken&b=2", &line, &vec![b'x'; 40_000])).await.status, 401);
    eventually("both are logged", || log.kept.lock().unwrap().len() == 2).await;
    let kept = log.kept.lock().unwrap().clone();
    assert_eq!((kept[0].source.as_str(), kept[0].reason.as_str()), ("r-svix", "timestamp_too_old"));
    assert_eq!((kept[0].at.as_micros(), kept[0].body.as_deref()), (NOW_S * 1_000_000, Some(&body[..])));
    let request = &kept[0].request;
    assert_eq!((request.method.as_str(), request.query.as_str(), request.body_bytes), ("POST", "a=1", body.len()));
    assert_eq!(request.trace_id, old.headers["oncefold-trace"]);
    assert!(request.headers.iter().any(|(name, value)| name == "svix-signature" && value.starts_with("v1,")));
    assert!(40_000 > REJECTED_BODY_BYTES_MAX && kept[1].body.is_none());
    assert_eq!((kept[1].request.query.as_str(), kept[1].request.body_bytes), ("key=[redacted]&b=2", 40_000));
    let shown = format!("{kept:?}");
    assert!(!shown.contains("t0ken") && !shown.contains(SECRET), "{shown}");
}

/// A forger fills no database, and a database that hangs holds up nothing.
#[tokio::test]
async fn the_log_is_in_nobodys_way() {
    for hangs in [false, true] {
        let (intake, log) = start(hangs, ["r-flood", "r-unused"]).await;
        let began = Instant::now();
        for _ in 0..300 {
            assert_eq!(intake.ask(&post("/in/r-flood", "", b"{}")).await.status, 401);
        }
        assert_eq!(intake.ask(&signed("/in/r-flood", b"{}")).await.status, 200);
        if !hangs {
            eventually("a second's budget is logged", || log.kept.lock().unwrap().len() >= 10).await;
        }
        let windows = began.elapsed().as_secs() + 2;
        assert!(log.kept.lock().unwrap().len() as u64 <= 10 * windows, "ten a second");
        intake.soft.cancel();
        intake.running.await.unwrap().unwrap();
    }
}
