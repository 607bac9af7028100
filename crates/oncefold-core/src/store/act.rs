use super::StoreError;
use crate::event::EventStatus;
use crate::id::{Digest, EventUuid};
use crate::time::Timestamp;
use async_trait::async_trait;

/// Who acts: a token's name, or `cli:<user>`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Actor(pub String);

/// Puts an event back on the queue.
#[derive(Clone, Debug)]
pub struct Replay {
    /// Which one.
    pub id: EventUuid,
    /// Who asks.
    pub actor: Actor,
    /// The present moment.
    pub now: Timestamp,
}

/// Gives a dead letter up.
#[derive(Clone, Debug)]
pub struct Discard {
    /// Which one.
    pub id: EventUuid,
    /// Who decides.
    pub actor: Actor,
    /// Why, in their words.
    pub reason: String,
    /// The present moment.
    pub now: Timestamp,
}

/// Why an action was not taken; nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// There is no such event.
    NotFound,
    /// It is in a status that does not allow it.
    WrongStatus(EventStatus),
    /// Retention dropped its body: there is nothing left to replay.
    BodyGone,
}

/// A request that may come twice under one key.
#[derive(Clone, Debug)]
pub struct Idempotency {
    /// The `Idempotency-Key` header.
    pub key: String,
    /// Who asks: keys of different actors never meet.
    pub actor: Actor,
    /// Digest of method, path and body.
    pub request: Digest,
    /// The present moment.
    pub now: Timestamp,
    /// Keys first used before this are forgotten.
    pub expired_before: Timestamp,
}

/// What is known of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// New: act, then keep the answer.
    Fresh,
    /// The original answer.
    Known {
        /// HTTP status.
        status: u16,
        /// Response body.
        body: String,
    },
    /// The first request under this key is still being answered.
    InProgress,
    /// The key was used for another request.
    Differs,
}

/// A text as it goes into the audit log: white space is a space, other control characters (NUL, which PostgreSQL's text
/// does not hold, escape sequences of terminals) are U+FFFD, so that an entry is one line wherever it is shown.
pub fn audit_text(text: &str) -> String {
    let shown = |c: char| match c {
        _ if c.is_whitespace() => ' ',
        _ if c.is_control() => char::REPLACEMENT_CHARACTER,
        _ => c,
    };
    text.chars().map(shown).collect()
}

/// What people do. Each action and its audit row are one transaction.
#[async_trait]
pub trait ActStore: Send + Sync {
    /// Puts an applied, ignored, dead or discarded event back: `queued`, generation + 1, due now, its body held
    /// until it settles again. `attempts` goes on counting.
    async fn replay(&self, replay: &Replay) -> Result<Result<(), Refusal>, StoreError>;

    /// Makes a dead letter `discarded`; its body then falls under retention.
    async fn discard(&self, discard: &Discard) -> Result<Result<(), Refusal>, StoreError>;

    /// Looks an idempotency key up, and takes it where it is new. A key whose first request has no answer for longer than
    /// [`crate::limits::IDEMPOTENT_ANSWER_MAX`] is taken over by the same request, which is [`Answer::Fresh`] again.
    async fn begin_idempotent(&self, request: &Idempotency) -> Result<Answer, StoreError>;

    /// Keeps the answer under a key that was taken; `None` frees the key (the request failed on our side).
    async fn finish_idempotent(&self, request: &Idempotency, answer: Option<(u16, String)>) -> Result<(), StoreError>;
}

#[cfg(test)]
mod tests {
    use super::audit_text;

    #[test]
    fn an_audit_entry_is_one_line_of_text() {
        assert_eq!(
            audit_text("a\0b\n\tc\u{1b}[31m d\u{85}\u{9f}é\u{1F600}"),
            "a\u{FFFD}b  c\u{FFFD}[31m d \u{FFFD}é\u{1F600}"
        );
        assert_eq!(audit_text(""), "");
    }
}
