//! What SQLite's result codes (<https://sqlite.org/rescode.html>) mean to callers. No text holds a row's values.

use oncefold_core::queue::{PublishError, QueueError};
use oncefold_core::store::StoreError;

const ERROR: i32 = 1;
const BUSY: i32 = 5;
const LOCKED: i32 = 6;
const TOO_BIG: i32 = 18;
const CONSTRAINT: i32 = 19;
const MISMATCH: i32 = 20;
/// `SQLITE_CONSTRAINT_TRIGGER`: a trigger's RAISE, whose text is the user's and may hold anything.
const CONSTRAINT_TRIGGER: i32 = CONSTRAINT | (7 << 8);
/// `PERM`, `NOMEM`, `READONLY`, `IOERR`, `CORRUPT`, `FULL`, `CANTOPEN`, `PROTOCOL`, `SCHEMA`, `AUTH`, `NOTADB`.
const AWAY: [i32; 11] = [3, 7, 8, 10, 11, 13, 14, 15, 17, 23, 26];

/// Sorts a failure by what a caller does about it.
pub(crate) fn store_error(error: sqlx::Error) -> StoreError {
    match error {
        sqlx::Error::Database(error) => {
            let code = error.code().and_then(|code| code.parse().ok()).unwrap_or(ERROR);
            by_code(code, error.message())
        }
        sqlx::Error::ColumnDecode { index, .. } => StoreError::Failed(format!("column {index} holds another type")),
        sqlx::Error::Decode(_) | sqlx::Error::Encode(_) => StoreError::Failed("a value has another type".to_owned()),
        other => StoreError::Unavailable(other.to_string()),
    }
}

fn by_code(code: i32, message: &str) -> StoreError {
    match code & 0xFF {
        _ if code == CONSTRAINT_TRIGGER => StoreError::Failed("a trigger raised an error".to_owned()),
        CONSTRAINT | MISMATCH | TOO_BIG => StoreError::Refused(message.to_owned()),
        BUSY | LOCKED => StoreError::Conflict(message.to_owned()),
        primary if AWAY.contains(&primary) => StoreError::Unavailable(format!("{message} (SQLite code {code})")),
        // A table or column that is not there: the schema is not this binary's.
        ERROR if message.starts_with("no such ") || message.contains("has no column") => {
            StoreError::Unavailable(format!("{message}: run `oncefold migrate` with the binary of this version"))
        }
        _ => StoreError::Failed(format!("{message} (SQLite code {code})")),
    }
}

/// A stored value that is none of ours.
pub(crate) fn damaged(what: &str) -> StoreError {
    StoreError::Failed(format!("the file holds {what} that this binary cannot read"))
}

pub(crate) fn publish_error(error: StoreError) -> PublishError {
    match error {
        StoreError::Refused(text) => PublishError::Refused(text),
        other => PublishError::Away(other.to_string()),
    }
}

pub(crate) fn queue_error(error: StoreError) -> QueueError {
    QueueError::Away(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Codes from <https://sqlite.org/rescode.html>, extended ones included.
    #[test]
    fn codes_are_sorted_by_what_to_do() {
        let unavailable = [3, 7, 8, 10, 11, 13, 14, 15, 17, 23, 26, 778, 1034, 266, 520];
        for code in unavailable {
            assert!(matches!(by_code(code, "x"), StoreError::Unavailable(_)), "{code}");
        }
        for code in [5, 6, 261, 517, 262] {
            assert!(matches!(by_code(code, "x"), StoreError::Conflict(_)), "{code}");
        }
        for code in [19, 275, 787, 1299, 1555, 2067, 3091, 20, 18] {
            assert!(matches!(by_code(code, "x"), StoreError::Refused(_)), "{code}");
        }
        assert!(matches!(by_code(1811, "the user's text"), StoreError::Failed(text) if !text.contains("user")));
        assert!(matches!(by_code(1, "no such table: events"), StoreError::Unavailable(_)));
        assert!(matches!(by_code(1, "malformed JSON"), StoreError::Failed(_)));
    }
}
