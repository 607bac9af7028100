//! The pruner: prepares storage for the days to come and forgets what retention lets go. One process at a time.

use super::{Duty, Next, is_elected};
use crate::context::Context;
use async_trait::async_trait;
use oncefold_core::Timestamp;
use oncefold_core::store::{Prune, Pruned, StoreError};
use std::time::Duration;

/// How often a process asks to be the one: another takes over within three times this.
const ELECTION_INTERVAL: Duration = Duration::from_secs(60);

#[derive(Default)]
pub struct Pruner {
    /// When this process began its last whole round.
    last_round: Option<Timestamp>,
}

#[async_trait]
impl Duty for Pruner {
    fn name(&self) -> &'static str {
        "pruner"
    }

    fn interval(&self) -> Duration {
        ELECTION_INTERVAL
    }

    /// One bounded batch of a round; the round goes on at once while there is more.
    async fn step(&mut self, ctx: &Context) -> Result<Next, StoreError> {
        let settings = &ctx.settings;
        let now = ctx.clock.now();
        let is_due = self.last_round.is_none_or(|at| now.since(at) >= settings.pace.prune);
        if !is_elected(ctx, self.name(), ELECTION_INTERVAL).await? || !is_due {
            return Ok(Next::Later);
        }
        ctx.store.prepare_days(now).await?;
        let prune = Prune {
            now,
            bodies_before: now.minus(settings.bodies_retention),
            ids_before: now.minus(settings.ids_retention),
            limit: settings.pace.prune_limit,
        };
        let pruned = ctx.store.prune(&prune).await?;
        if pruned != Pruned::default() {
            let Pruned { bodies, changes, events, rejected } = pruned;
            tracing::info!(bodies, changes, events, rejected, "forgot what retention lets go");
            return Ok(Next::AtOnce);
        }
        self.last_round = Some(now);
        Ok(Next::Later)
    }
}
