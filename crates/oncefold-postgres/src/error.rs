//! From sqlx's errors to what a caller does about them.

use oncefold_core::store::StoreError;
use sqlx::error::DatabaseError;

/// The SQLSTATE of a lock that was waited for too long.
pub(crate) const LOCK_NOT_AVAILABLE: &str = "55P03";
/// The SQLSTATE of a statement that was ended, by a time limit or by hand.
const QUERY_CANCELED: &str = "57014";

/// Sorts an error by SQLSTATE class (PostgreSQL manual, appendix A). Of the server's report only code, message and names of
/// tables and constraints are taken, and not even the message for classes 22 and 23, which quote the value they refuse,
/// and P0, where it is the text of somebody's RAISE. One that is raised under another code is taken for the server's.
pub(crate) fn store_error(error: &sqlx::Error) -> StoreError {
    use sqlx::Error as E;
    match error {
        E::Database(report) => of_report(report.as_ref()),
        E::PoolTimedOut => StoreError::Unavailable("no connection within 2 s".into()),
        E::PoolClosed => StoreError::Unavailable("its connections are closed".into()),
        E::Io(e) => StoreError::Unavailable(format!("the connection broke: {e}")),
        E::Tls(e) => StoreError::Unavailable(format!("TLS failed: {e}")),
        E::Protocol(e) => StoreError::Unavailable(format!("the server answers what is not understood: {e}")),
        E::WorkerCrashed | E::BeginFailed => StoreError::Unavailable("the connection broke".into()),
        E::Configuration(_) => StoreError::Unavailable("the store's URL cannot be used".into()),
        E::Encode(_) => StoreError::Refused("a value cannot be sent".into()),
        E::ColumnDecode { index, .. } => StoreError::Failed(format!("column {index} holds what is not understood")),
        _ => StoreError::Failed("an answer is not understood".into()),
    }
}

/// What ends the text of `read_only_sql_transaction`.
const READ_ONLY: &str = "(SQLSTATE 25006)";

/// A server that only reads is of no use, whatever it answers.
pub(crate) fn writable(read_only: bool) -> Result<(), StoreError> {
    if read_only { Err(StoreError::Unavailable(format!("the server is read-only {READ_ONLY}"))) } else { Ok(()) }
}

/// Whether the server only reads.
pub(crate) fn is_read_only(error: &StoreError) -> bool {
    matches!(error, StoreError::Unavailable(text) if text.ends_with(READ_ONLY))
}

fn of_report(report: &(dyn DatabaseError + 'static)) -> StoreError {
    let code = report.code().unwrap_or_default();
    let said = || format!("{} (SQLSTATE {code})", report.message());
    match code.get(..2).unwrap_or_default() {
        "22" | "23" => StoreError::Refused(format!("SQLSTATE {code}{}", place(report))),
        "P0" => StoreError::Failed(format!(
            "a trigger or function raised an error (SQLSTATE {code}); the server's log has it"
        )),
        "40" => StoreError::Conflict(said()),
        // After `lock_timeout`, after `statement_timeout`; and 42: a right or a table is missing.
        _ if code == LOCK_NOT_AVAILABLE || code == QUERY_CANCELED => StoreError::Hindered(said()),
        "42" => StoreError::Hindered(said()),
        // connection, authorization, unknown database, transaction state (read-only standby), resources, shutdown,
        // system error
        "08" | "28" | "3D" | "25" | "53" | "57" | "58" => StoreError::Unavailable(said()),
        _ => StoreError::Failed(said()),
    }
}

fn place(report: &(dyn DatabaseError + 'static)) -> String {
    match (report.table(), report.constraint()) {
        (Some(table), Some(constraint)) => format!(", constraint {constraint} of {table}"),
        (Some(table), None) => format!(", table {table}"),
        _ => String::new(),
    }
}
