//! What intake asks of other hosts: a certificate that a delivery names, a subscription to confirm. Only URLs that a scheme
//! has pinned to its provider come here.

use crate::intake::Intake;
use async_trait::async_trait;
use std::sync::Arc;
use tracing::{info, warn};

/// Sends GETs.
#[async_trait]
pub trait Outbound: Send + Sync {
    /// GETs an `https` URL, following no redirect, bounded in time and in bytes.
    ///
    /// # Errors
    /// Why no answer came.
    async fn get(&self, url: &str) -> Result<OutboundAnswer, String>;
}

/// What came back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutboundAnswer {
    /// Status code.
    pub status: u16,
    /// The body, cut at the client's bound.
    pub body: Vec<u8>,
}

/// Confirms a subscription aside: once, since whoever asks for it asks again.
pub(crate) fn confirm(intake: &Arc<Intake>, source: &str, url: String, trace: &str) {
    let (source, trace) = (source.to_owned(), trace.to_owned());
    let Some(outbound) = intake.outbound.clone() else {
        warn!(target: "oncefold::ingest", source, trace, "a subscription waits for its confirmation: this process asks no other host");
        return;
    };
    let abandon = intake.abandon.clone();
    intake.tasks.spawn(async move {
        let answered = abandon.run_until_cancelled(outbound.get(&url)).await;
        match answered {
            Some(Ok(answer)) if (200..300).contains(&answer.status) => {
                info!(target: "oncefold::ingest", source, trace, "subscription confirmed");
            }
            Some(Ok(answer)) => {
                warn!(target: "oncefold::ingest", source, trace, status = answer.status, "subscription not confirmed: ask the provider to send the confirmation again");
            }
            Some(Err(error)) => {
                warn!(target: "oncefold::ingest", source, trace, error, "subscription not confirmed: ask the provider to send the confirmation again");
            }
            None => {}
        }
    });
}
