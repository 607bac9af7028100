//! The life of a process: roles run as named tasks under two tokens. The first SIGTERM or SIGINT stops softly (take
//! no more work, finish what is in hand), a second one or the deadline stops hard. A task that ends by itself, with
//! an error or without, takes the process down.

use crate::failure::Failure;
use anyhow::{Context as _, anyhow};
use std::future::Future;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// How long a soft stop may take.
const SOFT_STOP_MAX: Duration = Duration::from_secs(25);
/// How long tasks may take to end after a hard stop.
const HARD_STOP_MAX: Duration = Duration::from_secs(3);

/// The two tokens that every role gets.
#[derive(Clone, Debug)]
pub struct Tokens {
    /// Take no more work; finish what is in hand.
    pub soft: CancellationToken,
    /// Drop everything. Cancelling it cancels `soft` too.
    pub hard: CancellationToken,
}

impl Tokens {
    fn fresh() -> Self {
        let hard = CancellationToken::new();
        Self { soft: hard.child_token(), hard }
    }
}

/// Named tasks that live and die together.
pub struct Lifecycle {
    tokens: Tokens,
    tasks: JoinSet<(&'static str, anyhow::Result<()>)>,
}

impl Default for Lifecycle {
    fn default() -> Self {
        Self { tokens: Tokens::fresh(), tasks: JoinSet::new() }
    }
}

impl Lifecycle {
    /// The tokens to give to tasks.
    pub fn tokens(&self) -> Tokens {
        self.tokens.clone()
    }

    /// Runs a task until it ends.
    pub fn spawn<E: Into<anyhow::Error>>(
        &mut self,
        name: &'static str,
        task: impl Future<Output = Result<(), E>> + Send + 'static,
    ) {
        self.tasks.spawn(async move { (name, task.await.map_err(Into::into)) });
    }

    /// Waits for a signal, or for the first task to end; then stops the others.
    ///
    /// # Errors
    /// When a task failed, panicked, or ended without being asked to.
    pub async fn run(mut self) -> Result<(), Failure> {
        let mut terminate = signal(SignalKind::terminate()).context("cannot listen for SIGTERM")?;
        let mut interrupt = signal(SignalKind::interrupt()).context("cannot listen for SIGINT")?;
        let mut failure = tokio::select! {
            _ = terminate.recv() => None,
            _ = interrupt.recv() => None,
            () = self.tokens.soft.cancelled() => None,
            ended = self.tasks.join_next() => Some(unasked(ended)),
        };
        match &failure {
            None => tracing::info!("stopping: taking no more work, finishing what is in hand"),
            Some(error) => tracing::error!(error = format!("{error:#}"), "stopping: a task died"),
        }
        self.tokens.soft.cancel();
        let stopping = drain(&mut self.tasks, &mut failure);
        let in_time = tokio::select! {
            () = stopping => true,
            _ = terminate.recv() => false,
            _ = interrupt.recv() => false,
            () = tokio::time::sleep(SOFT_STOP_MAX) => false,
        };
        if !in_time {
            tracing::warn!("stopping now: what is in hand is dropped and comes again");
            self.tokens.hard.cancel();
            let _ = tokio::time::timeout(HARD_STOP_MAX, drain(&mut self.tasks, &mut failure)).await;
        }
        failure.map_or_else(|| Ok(()), |error| Err(Failure::Run(error)))
    }
}

type Joined = Result<(&'static str, anyhow::Result<()>), tokio::task::JoinError>;

fn unasked(ended: Option<Joined>) -> anyhow::Error {
    match ended {
        None => anyhow!("nothing is left to run"),
        Some(Ok((name, Ok(())))) => anyhow!("{name} ended without being asked to"),
        Some(Ok((name, Err(error)))) => error.context(format!("{name} failed")),
        Some(Err(panic)) => anyhow!("a task died: {panic}"),
    }
}

/// Waits until every task has ended.
async fn drain(tasks: &mut JoinSet<(&'static str, anyhow::Result<()>)>, failure: &mut Option<anyhow::Error>) {
    while let Some(ended) = tasks.join_next().await {
        keep_first(failure, ended);
    }
}

fn keep_first(failure: &mut Option<anyhow::Error>, ended: Joined) {
    let error = match ended {
        Ok((_, Ok(()))) => return,
        Ok((name, Err(error))) => error.context(format!("{name} failed while stopping")),
        Err(panic) => anyhow!("a task died while stopping: {panic}"),
    };
    failure.get_or_insert(error);
}
