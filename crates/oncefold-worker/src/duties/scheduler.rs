//! The retry scheduler: sends again what is due, and what was sent but may not have arrived.

use super::{Duty, Next, publish_all};
use crate::context::Context;
use async_trait::async_trait;
use oncefold_core::store::{ClaimDue, StoreError};
use std::time::Duration;

pub struct Scheduler {
    pub interval: Duration,
}

#[async_trait]
impl Duty for Scheduler {
    fn name(&self) -> &'static str {
        "scheduler"
    }

    fn interval(&self) -> Duration {
        self.interval
    }

    /// Claims a page under a short lease, publishes it, and lengthens the lease of what was confirmed: a process that
    /// dies in between leaves events whose lease runs out, and somebody sends them again.
    async fn step(&mut self, ctx: &Context) -> Result<Next, StoreError> {
        if !ctx.queue.is_available() {
            return Ok(Next::Later);
        }
        let pace = &ctx.settings.pace;
        let now = ctx.clock.now();
        let claim = ClaimDue { now, lease_until: now.plus(pace.sending_lease), limit: pace.page };
        let due = ctx.in_time(ctx.store.claim_due(claim)).await?;
        let claimed: Vec<_> = due.iter().map(|message| (message.id, message.generation)).collect();
        let confirmed = publish_all(ctx, self.name(), due).await;
        let sent: Vec<_> = claimed.iter().zip(&confirmed).filter(|(_, ok)| **ok).map(|(event, _)| *event).collect();
        if !sent.is_empty() {
            tracing::debug!(events = sent.len(), "due events are on the queue again");
            ctx.in_time(ctx.store.extend_leases(&sent, ctx.clock.now().plus(pace.sent_lease))).await?;
        }
        let full = u32::try_from(claimed.len()).is_ok_and(|n| n >= pace.page);
        Ok(if full && sent.len() == claimed.len() { Next::AtOnce } else { Next::Later })
    }
}
