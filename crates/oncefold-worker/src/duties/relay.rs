//! The spool relay: moves what intake put into the spool on to the queue, once the queue takes it.

use super::{Duty, Next, publish_all};
use crate::context::Context;
use async_trait::async_trait;
use oncefold_core::store::{ClaimSpooled, SpoolStore, StoreError};
use std::sync::Arc;
use std::time::Duration;

pub struct Relay {
    pub interval: Duration,
    pub spool: Arc<dyn SpoolStore>,
}

#[async_trait]
impl Duty for Relay {
    fn name(&self) -> &'static str {
        "relay"
    }

    fn interval(&self) -> Duration {
        self.interval
    }

    /// Claims a page, publishes it, removes what was confirmed. Order is no matter, and a delivery that is sent twice
    /// is a repeat.
    async fn step(&mut self, ctx: &Context) -> Result<Next, StoreError> {
        if !ctx.queue.is_available() {
            return Ok(Next::Later);
        }
        let pace = &ctx.settings.pace;
        let now = ctx.clock.now();
        let claim = ClaimSpooled { now, lease_until: now.plus(pace.sending_lease), limit: pace.page };
        let (sequences, messages): (Vec<_>, Vec<_>) =
            ctx.in_time(self.spool.claim_spooled(claim)).await?.into_iter().map(|s| (s.sequence, s.message)).unzip();
        let confirmed = publish_all(ctx, self.name(), messages).await;
        let sent: Vec<_> = sequences.iter().zip(&confirmed).filter(|(_, ok)| **ok).map(|(at, _)| *at).collect();
        if !sent.is_empty() {
            ctx.in_time(self.spool.remove_spooled(&sent)).await?;
            tracing::info!(deliveries = sent.len(), "spooled deliveries are on the queue");
        }
        let full = u32::try_from(sequences.len()).is_ok_and(|n| n >= pace.page);
        Ok(if full && sent.len() == sequences.len() { Next::AtOnce } else { Next::Later })
    }
}
