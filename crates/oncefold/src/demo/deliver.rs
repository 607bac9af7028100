//! Sends the sample traffic over real HTTP from several connections.

use super::traffic::{Delivery, Kind};
use crate::client::Client;
use anyhow::Context as _;
use std::io::IsTerminal as _;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

const CONNECTIONS: usize = 8;
const TIMEOUT: Duration = Duration::from_secs(10);

/// Answers by kind of delivery.
#[derive(Clone, Copy, Debug, Default)]
pub struct Answers {
    /// Everything that was sent.
    pub sent: usize,
    /// 2xx.
    pub accepted: usize,
    /// 401.
    pub rejected: usize,
    /// Answers that were not the ones to expect: a forged delivery taken, a good one refused.
    pub unexpected: usize,
}

/// Sends every delivery to `url`, in order over all connections together. Blocks.
///
/// # Errors
/// When a delivery got no answer.
pub fn deliver(url: &str, deliveries: &[Delivery]) -> anyhow::Result<Answers> {
    let bar = if std::io::stderr().is_terminal() {
        indicatif::ProgressBar::new(deliveries.len() as u64)
    } else {
        indicatif::ProgressBar::hidden()
    };
    let next = AtomicUsize::new(0);
    let answers = Mutex::new(Answers::default());
    let run = || -> anyhow::Result<()> {
        let client = Client::with_timeout(TIMEOUT);
        while let Some(delivery) = deliveries.get(next.fetch_add(1, Ordering::Relaxed)) {
            let answer = client.post(url, &delivery.headers, &delivery.body).context("a delivery got no answer")?;
            count(&answers, delivery.kind, answer.status);
            bar.inc(1);
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let senders: Vec<_> = (0..CONNECTIONS).map(|_| scope.spawn(run)).collect();
        senders.into_iter().try_for_each(|sender| match sender.join() {
            Ok(result) => result,
            Err(_) => Err(anyhow::anyhow!("a sender died")),
        })
    })?;
    bar.finish_and_clear();
    Ok(answers.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner))
}

fn count(answers: &Mutex<Answers>, kind: Kind, status: u16) {
    let mut answers = answers.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let accepted = (200..300).contains(&status);
    answers.sent += 1;
    answers.accepted += usize::from(accepted);
    answers.rejected += usize::from(status == 401);
    answers.unexpected += usize::from(accepted == (kind == Kind::Forged) || (kind == Kind::Forged && status != 401));
}
