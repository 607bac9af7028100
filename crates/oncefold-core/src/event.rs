//! The event state machine (architecture.md, "Event states"; drawn in docs/events.md).

use crate::reason::Failure;
use crate::time::Timestamp;
use std::fmt;

/// Where an event stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EventStatus {
    /// Put back by us; its lease makes the scheduler send it again.
    Queued,
    /// Failed for a passing reason; tried again at `next_attempt_at`.
    Retrying,
    /// Will not be tried again by itself.
    Dead,
    /// Its changes went through the guard.
    Applied,
    /// No projection is about its type.
    Ignored,
    /// Given up by a named person, with a reason.
    Discarded,
}

impl EventStatus {
    /// Every status.
    pub const ALL: [Self; 6] =
        [Self::Queued, Self::Retrying, Self::Dead, Self::Applied, Self::Ignored, Self::Discarded];

    /// Its name in the API and the database.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Retrying => "retrying",
            Self::Dead => "dead",
            Self::Applied => "applied",
            Self::Ignored => "ignored",
            Self::Discarded => "discarded",
        }
    }

    /// The status of this name.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|s| s.as_str() == text)
    }

    /// Whether nothing happens to it by itself any more. A dead letter is not settled: its body is held until a
    /// person has decided.
    pub const fn is_settled(self) -> bool {
        matches!(self, Self::Applied | Self::Ignored | Self::Discarded)
    }

    /// Whether a worker's verdict may move it: the claim's guard.
    pub const fn takes_verdict(self) -> bool {
        matches!(self, Self::Queued | Self::Retrying | Self::Dead)
    }

    /// Whether a person or a job may put it back on the queue.
    pub const fn takes_replay(self) -> bool {
        matches!(self, Self::Applied | Self::Ignored | Self::Dead | Self::Discarded)
    }

    /// Whether a person may discard it.
    pub const fn takes_discard(self) -> bool {
        matches!(self, Self::Dead)
    }
}

impl fmt::Display for EventStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A worker's verdict on an event that is not applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Setback {
    /// To be tried again then.
    Retry(Failure, Timestamp),
    /// Not to be tried again by itself.
    Dead(Failure),
}
