//! Partitions of a day (UTC) of `bodies` and `changes`: `bodies_20260102`.

use crate::error::{LOCK_NOT_AVAILABLE, store_error};
use crate::session::{Session, Sessions};
use oncefold_core::store::StoreError;
use oncefold_core::time::Timestamp;
use sqlx::{AssertSqlSafe, PgConnection};
use std::collections::HashSet;
use std::time::Duration;

/// How many days ahead of today have their partitions.
const DAYS_AHEAD: u32 = 3;
const DAY: Duration = Duration::from_secs(86_400);
/// The partitioned tables, each with the column that says the day.
pub(super) const TABLES: [&str; 2] = ["bodies", "changes"];
/// Serialises making and dropping of partitions; an arbitrary number that only we use.
const ADVISORY_LOCK: i64 = 0x6f6e_6365_666f_6c64;

/// A day, in UTC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Day {
    digits: String,
    start: Timestamp,
}

impl Day {
    /// The day of a moment; none past the years a date can have.
    pub fn of(moment: Timestamp) -> Option<Self> {
        let date: String = moment.to_rfc3339().get(..10)?.replace('-', "");
        Self::parse(&date)
    }

    /// The day of these eight digits.
    pub fn parse(digits: &str) -> Option<Self> {
        if digits.len() != 8 || !digits.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        let start = Timestamp::parse(&format!("{}-{}-{}T00:00:00Z", &digits[..4], &digits[4..6], &digits[6..]))?;
        Some(Self { digits: digits.to_owned(), start })
    }

    /// The first moment that is no longer in it.
    pub fn end(&self) -> Timestamp {
        self.start.plus(DAY)
    }
}

/// Makes the partitions that are missing from today on. A day whose rows already stand in the default partition gets
/// none; retention trims them row by row.
pub(super) async fn prepare(sessions: &Sessions, now: Timestamp) -> Result<(), StoreError> {
    let mut session = sessions.take().await?;
    for table in TABLES {
        let present: HashSet<String> =
            partitions(&mut session, table).await?.into_iter().map(|day| day.digits).collect();
        let wanted = (0..=DAYS_AHEAD).filter_map(|ahead| Day::of(now.plus(DAY * ahead)));
        for day in wanted.filter(|day| !present.contains(&day.digits)) {
            make(&mut session, table, &day).await?;
        }
    }
    Ok(())
}

/// The days that have partitions of this table.
pub(super) async fn partitions(connection: &mut PgConnection, table: &str) -> Result<Vec<Day>, StoreError> {
    let names = sqlx::query_scalar!(
        r#"
        SELECT child.relname::text AS "name!" FROM pg_inherits
        JOIN pg_class child ON child.oid = inhrelid
        WHERE inhparent = to_regclass($1) ORDER BY 1
        "#,
        table,
    )
    .fetch_all(connection)
    .await
    .map_err(|e| store_error(&e))?;
    Ok(names.iter().filter_map(|name| name.strip_prefix(table)?.strip_prefix('_').and_then(Day::parse)).collect())
}

async fn make(session: &mut Session, table: &str, day: &Day) -> Result<(), StoreError> {
    let (name, start, end) = (&day.digits, day.start.as_micros(), day.end().as_micros());
    let ddl =
        format!("CREATE TABLE IF NOT EXISTS {table}_{name} PARTITION OF {table} FOR VALUES FROM ({start}) TO ({end})");
    match alone(session, ddl).await {
        Err(sqlx::Error::Database(e)) if e.code().as_deref() == Some("23514") => {
            tracing::warn!(
                table,
                day = name,
                "rows of this day stand in the default partition: it gets none of its own"
            );
            Ok(())
        }
        done => done.map_err(|e| in_the_way(&e)),
    }
}

/// Drops the partition of a day.
pub(super) async fn drop_day(session: &mut Session, table: &str, day: &Day) -> Result<(), StoreError> {
    let ddl = format!("DROP TABLE IF EXISTS {table}_{}", day.digits);
    alone(session, ddl).await.map_err(|e| in_the_way(&e))
}

/// A lock that did not come within its short time is no outage: the step is done again later.
fn in_the_way(error: &sqlx::Error) -> StoreError {
    match error {
        sqlx::Error::Database(report) if report.code().as_deref() == Some(LOCK_NOT_AVAILABLE) => {
            StoreError::Conflict("partitions are in use, so that none can be made or dropped in this moment".into())
        }
        other => store_error(other),
    }
}

/// Runs a statement of ours (names made of digits only) in a transaction that excludes others of its kind, and that
/// does not make writers queue behind it for long: the lock it needs stops them all.
async fn alone(session: &mut Session, ddl: String) -> sqlx::Result<()> {
    let mut transaction = session.begin().await?;
    sqlx::query!("SELECT set_config('lock_timeout', '2s', true)").fetch_one(&mut *transaction).await?;
    sqlx::query!("SELECT set_config('statement_timeout', '0', true)").fetch_one(&mut *transaction).await?;
    sqlx::query!("SELECT pg_advisory_xact_lock($1)", ADVISORY_LOCK).fetch_one(&mut *transaction).await?;
    sqlx::query(AssertSqlSafe(ddl)).execute(&mut *transaction).await?;
    transaction.commit().await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_is_from_midnight_to_midnight_utc() {
        let moment = Timestamp::parse("2028-02-29T23:59:59.999999Z").unwrap();
        let day = Day::of(moment).unwrap();
        assert_eq!(day.digits, "20280229");
        assert_eq!(day.start, Timestamp::parse("2028-02-29T00:00:00Z").unwrap());
        assert_eq!(day.end(), Timestamp::parse("2028-03-01T00:00:00Z").unwrap());
        assert_eq!(Day::parse("default"), None);
        assert_eq!(Day::parse("20261301"), None);
    }
}
