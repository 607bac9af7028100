//! The chain is the one of oncefold-signature's tests: made by openssl, for messageverificationcerts.paypal.com.

use super::*;
use crate::outbound::OutboundAnswer;
use async_trait::async_trait;
use std::borrow::Cow;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::Semaphore;

const CHAIN: &[u8] = include_bytes!("../../oncefold-signature/src/testdata/chain.pem");
const ROOT: &[u8] = include_bytes!("../../oncefold-signature/src/testdata/root.pem");
const NOW: UnixTime = UnixTime::from_secs(1_800_000_000);

/// Gives the chain for `…/good`, 500 for `…/away`, breaks for `…/broken`, 404 for others; each only with a permit.
struct Host {
    asked: AtomicUsize,
    gate: Semaphore,
}

#[async_trait]
impl Outbound for Host {
    async fn get(&self, url: &str) -> Result<OutboundAnswer, String> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        self.gate.acquire().await.unwrap().forget();
        let status = match url.rsplit_once('/').unwrap().1 {
            "good" => 200,
            "away" => 500,
            "broken" => return Err("connection refused".to_owned()),
            _ => 404,
        };
        Ok(OutboundAnswer { status, body: CHAIN.to_vec() })
    }
}

fn roots() -> TrustRoots {
    use base64::Engine as _;
    let text: String = std::str::from_utf8(ROOT).unwrap().lines().filter(|line| !line.starts_with('-')).collect();
    let der = base64::engine::general_purpose::STANDARD.decode(text).unwrap();
    TrustRoots::of([der.as_slice()])
}

fn host(permits: usize) -> (Arc<Host>, Certificates) {
    let host = Arc::new(Host { asked: AtomicUsize::new(0), gate: Semaphore::new(permits) });
    (Arc::clone(&host), Certificates::by(Some(host as _), roots()))
}

fn request(file: &str) -> CertificateRequest<'static> {
    let url = format!("https://api.paypal.com/v1/notifications/certs/{file}");
    CertificateRequest { url: Cow::Owned(url), names: vec!["messageverificationcerts.paypal.com".to_owned()] }
}

fn asked(host: &Host) -> usize {
    host.asked.load(Ordering::SeqCst)
}

#[tokio::test(start_paused = true)]
async fn one_is_fetched_once_however_many_ask() {
    let (host, certificates) = host(0);
    let wanted = request("good");
    let all = futures_util::future::join_all((0..50).map(|_| certificates.get(&wanted, NOW)));
    let (all, ()) = tokio::join!(all, async {
        tokio::task::yield_now().await;
        host.gate.add_permits(1);
    });
    assert!(all.iter().all(Result::is_ok));
    assert_eq!(asked(&host), 1);
    assert!(certificates.get(&wanted, NOW).await.is_ok());
    assert_eq!(asked(&host), 1);
    tokio::time::advance(GOOD_FOR).await;
    host.gate.add_permits(1);
    assert!(certificates.get(&wanted, NOW).await.is_ok());
    assert_eq!(asked(&host), 2, "it is looked at again");
}

#[tokio::test(start_paused = true)]
async fn one_that_is_abandoned_is_fetched_by_the_next() {
    let (host, certificates) = host(0);
    let wanted = request("good");
    let waited = timeout(Duration::from_secs(1), certificates.get(&wanted, NOW)).await;
    assert!(waited.is_err());
    host.gate.add_permits(1);
    assert!(certificates.get(&wanted, NOW).await.is_ok());
    assert_eq!(asked(&host), 2);
}

#[tokio::test(start_paused = true)]
async fn failures_are_remembered_for_a_while() {
    let (host, certificates) = host(100);
    for _ in 0..3 {
        assert!(matches!(certificates.get(&request("none"), NOW).await, Err(NoCertificate::Untrusted(_))));
        assert!(matches!(certificates.get(&request("away"), NOW).await, Err(NoCertificate::Away(_))));
        assert!(matches!(certificates.get(&request("broken"), NOW).await, Err(NoCertificate::Away(_))));
    }
    assert_eq!(asked(&host), 3);
    tokio::time::advance(FAILED_FOR).await;
    assert!(certificates.get(&request("none"), NOW).await.is_err());
    assert_eq!(asked(&host), 4);
}

#[tokio::test(start_paused = true)]
async fn what_is_asked_for_in_bad_faith_displaces_nothing_good_and_is_bounded() {
    let (host, certificates) = host(1_000);
    assert!(certificates.get(&request("good"), NOW).await.is_ok());
    for n in 0..1_000 {
        assert!(certificates.get(&request(&format!("forged-{n}")), NOW).await.is_err());
        assert!(certificates.kept.lock().unwrap().entries.len() <= KEPT_MAX);
    }
    assert_eq!(asked(&host), FETCHES_MAX);
    assert!(certificates.get(&request("good"), NOW).await.is_ok());
    assert_eq!(asked(&host), FETCHES_MAX, "the good one was kept");
    tokio::time::advance(WINDOW).await;
    assert!(matches!(certificates.get(&request("forged"), NOW).await, Err(NoCertificate::Untrusted(_))));
}

#[tokio::test]
async fn a_chain_for_somebody_else_is_not_trusted() {
    let (_host, certificates) = host(10);
    let stranger = CertificateRequest { names: vec!["paypal.com".to_owned()], ..request("good") };
    assert!(matches!(certificates.get(&stranger, NOW).await, Err(NoCertificate::Untrusted(_))));
    let alone = Certificates::by(None, roots());
    assert!(matches!(alone.get(&request("good"), NOW).await, Err(NoCertificate::Away(_))));
}
