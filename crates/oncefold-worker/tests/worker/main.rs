//! The worker role against a store and a queue in memory, which run the suites of the backends. Time is tokio's, paused:
//! hours of backoff pass in milliseconds.

mod duties;
mod faults;
mod lifecycle;
mod outages;
mod property;
mod recorder;
mod support;
mod verdicts;
