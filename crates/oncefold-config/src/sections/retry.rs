//! `[retry]`: how failed attempts are spaced.

use crate::reader::{Schema, Table};
use oncefold_core::retry::RetryPolicy;
use std::time::Duration;

pub(crate) const SCHEMA: Schema = Schema { title: "[retry]", keys: &["max_attempts", "base", "cap"], later: &[] };

const DEFAULT: RetryPolicy =
    RetryPolicy { max_attempts: 60, base: Duration::from_secs(2), cap: Duration::from_secs(3600) };
const ATTEMPTS_MAX: u32 = 1_000;
const DELAY: std::ops::RangeInclusive<Duration> = Duration::from_millis(10)..=Duration::from_secs(7 * 86_400);

pub(crate) fn read(root: &Table<'_>) -> RetryPolicy {
    let section = root.section("retry", &SCHEMA);
    let delay = |key, default| section.get(key).and_then(|n| n.duration(DELAY)).unwrap_or(default);
    let attempts = section.get("max_attempts").and_then(|n| n.integer(1..=ATTEMPTS_MAX));
    let policy = RetryPolicy {
        max_attempts: attempts.unwrap_or(DEFAULT.max_attempts),
        base: delay("base", DEFAULT.base),
        cap: delay("cap", DEFAULT.cap),
    };
    if policy.cap < policy.base {
        let place = section.get("cap").or_else(|| section.get("base")).map_or(section.place, |n| n.place);
        section.context.problem(&place, "`cap` is less than `base`", "raise `cap` or lower `base`");
    }
    policy
}
