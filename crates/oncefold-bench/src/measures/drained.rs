//! Waiting until everything is applied, and reading from the rows how fast it went.

use crate::services;
use anyhow::{Result, bail};
use sqlx::{PgConnection, SqliteConnection};
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Counting costs the database something: not too often.
const POLL: Duration = Duration::from_millis(300);
/// Without any progress for so long, something is broken.
const STUCK: Duration = Duration::from_secs(30);

/// When an event was received and when its rows were committed, microseconds since the Unix epoch.
#[derive(Clone, Copy, Debug, sqlx::FromRow)]
pub struct Times {
    pub received_us: i64,
    pub committed_us: i64,
}

/// Something that counts applied events.
pub trait Log {
    /// How many there are.
    async fn applied(&mut self) -> Result<u64>;
}

impl Log for PgConnection {
    async fn applied(&mut self) -> Result<u64> {
        let count: i64 = sqlx::query_scalar("SELECT count(*) FROM events").fetch_one(self).await?;
        Ok(u64::try_from(count)?)
    }
}

impl Log for SqliteConnection {
    async fn applied(&mut self) -> Result<u64> {
        let count: i64 = sqlx::query_scalar("SELECT count(*) FROM events").fetch_one(self).await?;
        Ok(u64::try_from(count)?)
    }
}

/// Waits until `expected` events are in the log.
pub async fn wait(log: &mut impl Log, expected: usize) -> Result<()> {
    let (mut highest, mut progress) = (0, Instant::now());
    loop {
        let applied = log.applied().await?;
        if applied >= expected as u64 {
            return Ok(());
        }
        if applied > highest {
            (highest, progress) = (applied, Instant::now());
        }
        if progress.elapsed() > STUCK {
            bail!("only {applied} of {expected} events are applied, and nothing moves");
        }
        sleep(POLL).await;
    }
}

/// The times of all events of a PostgreSQL store, in the order of commits.
pub async fn times(url: &str) -> Result<Vec<Times>> {
    let mut store = services::connect(url).await?;
    let times = sqlx::query_as(
        "SELECT received_at_us AS received_us,
                (extract(epoch FROM pg_xact_commit_timestamp(xmin)) * 1000000)::bigint AS committed_us
         FROM events ORDER BY 2",
    );
    Ok(times.fetch_all(&mut store).await?)
}

/// Events per second from the first commit to the last; what the first one brought took its time before.
pub fn rate(times: &[Times]) -> f64 {
    let (Some(first), Some(last)) = (times.first(), times.last()) else { return 0.0 };
    let later = times.iter().filter(|t| t.committed_us > first.committed_us).count();
    later as f64 / ((last.committed_us - first.committed_us) as f64 / 1e6)
}

/// Median and 99th percentile of the time from received to committed of what was received in these microseconds;
/// milliseconds.
pub fn lag_ms(times: &[Times], received: std::ops::Range<i64>) -> (f64, f64) {
    let within = times.iter().filter(|t| received.contains(&t.received_us));
    let mut lags: Vec<u64> = within.map(|t| u64::try_from(t.committed_us - t.received_us).unwrap_or(0)).collect();
    let mut quantile = |q| crate::stats::quantile(&mut lags, q) as f64 / 1e3;
    (quantile(0.5), quantile(0.99))
}

/// Bytes of write-ahead log written since the server began.
pub async fn wal_bytes(url: &str) -> Result<f64> {
    let mut store = services::connect(url).await?;
    let bytes = sqlx::query_scalar("SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::float8");
    Ok(bytes.fetch_one(&mut store).await?)
}

/// Bytes of all tables and indexes.
pub async fn stored_bytes(url: &str) -> Result<f64> {
    let mut store = services::connect(url).await?;
    let bytes = sqlx::query_scalar(
        "SELECT sum(pg_total_relation_size(oid))::float8 FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace",
    );
    Ok(bytes.fetch_one(&mut store).await?)
}

/// So that the pages of one run's write-ahead log do not depend on the run before.
pub async fn checkpoint(url: &str) -> Result<()> {
    sqlx::query("CHECKPOINT").execute(&mut services::connect(url).await?).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_batch_counts_for_nothing_but_the_start() {
        let at = |committed_us| Times { received_us: 0, committed_us };
        let times = [at(1_000_000), at(1_000_000), at(1_500_000), at(2_000_000), at(3_000_000)];
        assert_eq!(rate(&times), 1.5);
        assert_eq!(lag_ms(&times, 0..1), (1500.0, 3000.0));
        assert_eq!(lag_ms(&times, 1..2), (0.0, 0.0));
    }
}
