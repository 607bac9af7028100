//! Background duties, a file each. Wake-ups are polling: a duty looks at the store, acts, and looks again.

pub mod gauges;
pub mod pruner;
pub mod recorder;
pub mod relay;
pub mod scheduler;

use crate::context::Context;
use crate::pause::Pause;
use async_trait::async_trait;
use oncefold_core::queue::PublishError;
use oncefold_core::store::{Election, StoreError};
use oncefold_core::{Message, SourceName};
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use tracing::debug;

/// When a duty looks again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// There is more to do.
    AtOnce,
    /// After its interval.
    Later,
}

/// Something that is done again and again beside consuming.
#[async_trait]
pub trait Duty: Send {
    /// What it is called in logs and elections.
    fn name(&self) -> &'static str;

    /// Between two looks, where the last one found little.
    fn interval(&self) -> Duration;

    /// One look and what follows from it.
    async fn step(&mut self, ctx: &Context) -> Result<Next, StoreError>;
}

/// Does a duty until stopped. A step in hand is finished; while the database is away none begins.
pub async fn run(ctx: &Context, soft: &CancellationToken, mut duty: impl Duty) {
    let mut pause = Pause::between(ctx.settings.pace.pause_first, ctx.settings.pace.pause_max);
    loop {
        tokio::select! {
            biased;
            () = soft.cancelled() => return,
            () = ctx.gate.pass() => {}
        }
        let wait = match duty.step(ctx).await {
            Ok(Next::AtOnce) => Duration::ZERO,
            Ok(Next::Later) => duty.interval(),
            Err(e) => {
                ctx.store_failed(duty.name(), &e);
                pause.after_failure(ctx.entropy.as_ref())
            }
        };
        if wait <= duty.interval() {
            pause.reset();
        }
        tokio::select! {
            biased;
            () = soft.cancelled() => return,
            () = tokio::time::sleep(wait) => {}
        }
    }
}

/// Whether this process holds a duty that one process at a time has; it stays ours while we ask every interval.
async fn is_elected(ctx: &Context, duty: &'static str, interval: Duration) -> Result<bool, StoreError> {
    let now = ctx.clock.now();
    let lease_until = now.plus(interval.saturating_mul(3));
    let election = Election { duty, holder: ctx.settings.holder.clone(), now, lease_until };
    ctx.in_time(ctx.store.elect(&election)).await
}

/// Publishes events side by side; answers, in order, whether each was confirmed.
async fn publish_all(ctx: &Context, duty: &str, messages: impl IntoIterator<Item = Message>) -> Vec<bool> {
    let sends = messages.into_iter().map(|message| async move {
        let message = Arc::new(message);
        let sent = ctx.queue.publish(Arc::clone(&message)).await;
        sent.inspect_err(|e| tell_unsent(duty, &message.source, e)).is_ok()
    });
    futures_util::future::join_all(sends).await
}

fn tell_unsent(duty: &str, source: &SourceName, e: &PublishError) {
    debug!(duty, %source, error = %e, "an event was not confirmed: its lease runs out, then it is sent again");
}
