//! The gauges of stored things, sampled by one process at a time. A process that loses the election takes its figures
//! back, so that sums over replicas are right.

use super::{Duty, Next, is_elected};
use crate::context::Context;
use async_trait::async_trait;
use oncefold_core::SourceName;
use oncefold_core::store::StoreError;
use std::collections::HashMap;
use std::time::Duration;

pub struct GaugesDuty {
    pub interval: Duration,
}

#[async_trait]
impl Duty for GaugesDuty {
    fn name(&self) -> &'static str {
        "gauges"
    }

    fn interval(&self) -> Duration {
        self.interval
    }

    async fn step(&mut self, ctx: &Context) -> Result<Next, StoreError> {
        if !is_elected(ctx, self.name(), self.interval).await? {
            clear(ctx);
            return Ok(Next::Later);
        }
        let known = ctx.in_time(ctx.store.known_sources()).await?;
        sample_store(ctx, &known).await?;
        if let Some(spool) = &ctx.spool {
            ctx.metrics.spool_depth.set(gauge(ctx.in_time(spool.spool_depth()).await?));
        }
        match ctx.queue.depths(&known).await {
            Ok(depths) => {
                for (queue, depth) in depths {
                    ctx.metrics.queue_depth.with_label_values(&[queue.to_string().as_str()]).set(gauge(depth));
                }
            }
            Err(e) => tracing::debug!(error = %e, "the queues' depths are unknown"),
        }
        Ok(Next::Later)
    }
}

/// A source without such events gets a zero, so that an alert on it ends.
async fn sample_store(ctx: &Context, known: &[SourceName]) -> Result<(), StoreError> {
    let gauges = ctx.in_time(ctx.store.gauges()).await?;
    let dead: HashMap<_, _> = gauges.dead_letters.into_iter().collect();
    let oldest: HashMap<_, _> = gauges.oldest_unapplied.into_iter().collect();
    let now = ctx.clock.now();
    for source in known {
        let label = [source.as_str()];
        ctx.metrics.dead_letters.with_label_values(&label).set(gauge(dead.get(source).copied().unwrap_or(0)));
        let age_s = oldest.get(source).map_or(0.0, |at| now.since(*at).as_secs_f64());
        ctx.metrics.oldest_unapplied_seconds.with_label_values(&label).set(age_s);
    }
    Ok(())
}

fn clear(ctx: &Context) {
    ctx.metrics.dead_letters.reset();
    ctx.metrics.oldest_unapplied_seconds.reset();
    ctx.metrics.queue_depth.reset();
    ctx.metrics.spool_depth.set(0);
}

fn gauge(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
