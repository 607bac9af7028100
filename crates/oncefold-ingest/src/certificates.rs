//! Certificates that deliveries name: fetched once however many ask, kept for a while, few. Whoever sends a request chooses
//! the file at the provider's host, so what failed is remembered too, and fetches are counted.

use crate::outbound::Outbound;
use oncefold_signature::{CertificateRequest, SigningCertificate, TrustRoots, UnixTime};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use thiserror::Error;
use tokio::sync::OnceCell;
use tokio::time::{Instant, timeout};

/// Certificates kept, the failed ones among them.
const KEPT_MAX: usize = 16;
/// How long a good one is kept before it is asked for again.
const GOOD_FOR: Duration = Duration::from_secs(12 * 3600);
/// How long a failure is remembered.
const FAILED_FOR: Duration = Duration::from_secs(60);
/// Fetches in one [`WINDOW`].
const FETCHES_MAX: usize = 30;
const WINDOW: Duration = Duration::from_secs(60);
/// Longest fetch.
const FETCH_MAX: Duration = Duration::from_secs(8);

/// Why there is no certificate.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub(crate) enum NoCertificate {
    /// It may be there later.
    #[error("the certificate cannot be had: {0}")]
    Away(String),
    /// What is there is no certificate of the provider's.
    #[error("{0}")]
    Untrusted(String),
}

type Fetched = Result<SigningCertificate, NoCertificate>;

struct Entry {
    url: String,
    names: Vec<String>,
    since: Instant,
    cell: Arc<OnceCell<Fetched>>,
}

impl Entry {
    fn failed(&self) -> bool {
        matches!(self.cell.get(), Some(Err(_)))
    }

    fn is_fresh(&self, now: Instant) -> bool {
        let age = now.duration_since(self.since);
        match self.cell.get() {
            None => true,
            Some(Ok(_)) => age < GOOD_FOR,
            Some(Err(_)) => age < FAILED_FOR,
        }
    }
}

#[derive(Default)]
struct Kept {
    entries: Vec<Entry>,
    fetches: VecDeque<Instant>,
}

/// The certificates at hand.
pub(crate) struct Certificates {
    outbound: Option<Arc<dyn Outbound>>,
    roots: TrustRoots,
    kept: Mutex<Kept>,
}

impl Certificates {
    pub(crate) fn by(outbound: Option<Arc<dyn Outbound>>, roots: TrustRoots) -> Self {
        Self { outbound, roots, kept: Mutex::default() }
    }

    /// The certificate, fetched where it is not at hand.
    pub(crate) async fn get(&self, needed: &CertificateRequest<'_>, now: UnixTime) -> Fetched {
        let Some(outbound) = &self.outbound else {
            return Err(NoCertificate::Away("this process asks no other host; state `certificates`".to_owned()));
        };
        let cell = self.cell(needed)?;
        cell.get_or_init(|| self.fetch(outbound.as_ref(), needed, now)).await.clone()
    }

    /// The place of this certificate, made where there is none.
    fn cell(&self, needed: &CertificateRequest<'_>) -> Result<Arc<OnceCell<Fetched>>, NoCertificate> {
        let now = Instant::now();
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.entries.retain(|entry| entry.is_fresh(now));
        let is_this = |entry: &&Entry| entry.url == needed.url && entry.names == needed.names;
        if let Some(entry) = kept.entries.iter().find(is_this) {
            return Ok(Arc::clone(&entry.cell));
        }
        while kept.fetches.front().is_some_and(|at| now.duration_since(*at) >= WINDOW) {
            kept.fetches.pop_front();
        }
        if kept.fetches.len() >= FETCHES_MAX {
            return Err(NoCertificate::Away("too many certificates were asked for within a minute".to_owned()));
        }
        if kept.entries.len() >= KEPT_MAX {
            let oldest = |wanted: fn(&Entry) -> bool, kept: &Kept| {
                let matching = kept.entries.iter().enumerate().filter(|(_, entry)| wanted(entry));
                matching.min_by_key(|(_, entry)| entry.since).map(|(at, _)| at)
            };
            let goes = oldest(Entry::failed, &kept).or_else(|| oldest(|entry| entry.cell.initialized(), &kept));
            match goes {
                Some(at) => drop(kept.entries.swap_remove(at)),
                None => return Err(NoCertificate::Away("too many certificates are being fetched".to_owned())),
            }
        }
        let cell = Arc::new(OnceCell::new());
        kept.fetches.push_back(now);
        let (url, names) = (needed.url.to_string(), needed.names.clone());
        kept.entries.push(Entry { url, names, since: now, cell: Arc::clone(&cell) });
        Ok(cell)
    }

    async fn fetch(&self, outbound: &dyn Outbound, needed: &CertificateRequest<'_>, now: UnixTime) -> Fetched {
        let answered = timeout(FETCH_MAX, outbound.get(&needed.url)).await;
        let answer = answered.unwrap_or_else(|_| Err("no answer in time".to_owned())).map_err(NoCertificate::Away)?;
        match answer.status {
            200 => SigningCertificate::chained(&answer.body, &self.roots, &needed.names, now)
                .map_err(|error| NoCertificate::Untrusted(error.to_string())),
            status @ 500.. => Err(NoCertificate::Away(format!("the provider answers {status}"))),
            status => Err(NoCertificate::Untrusted(format!("there is no certificate: the provider answers {status}"))),
        }
    }
}

#[cfg(test)]
#[path = "certificates_tests.rs"]
mod tests;
