use crate::error::store_error;
use crate::rows::array;
use oncefold_core::store::StoreError;
use sqlx::SqliteConnection;

/// What becomes of rows of the queue.
#[derive(Debug, Default)]
pub(super) struct Settlements {
    pub(super) acked: Vec<i64>,
    pub(super) rejected: Vec<i64>,
}

/// Deletes what is acked, moves what is rejected to the dead letters.
pub(super) async fn settle(conn: &mut SqliteConnection, settlements: &Settlements) -> Result<(), StoreError> {
    if !settlements.rejected.is_empty() {
        bury(conn, &settlements.rejected, "rejected").await?;
    }
    if !settlements.acked.is_empty() {
        delete(conn, &array(&settlements.acked)).await?;
    }
    Ok(())
}

/// Moves rows to the dead letters, at their end.
pub(super) async fn bury(conn: &mut SqliteConnection, sequences: &[i64], death: &str) -> Result<(), StoreError> {
    let sequences = array(sequences);
    sqlx::query!(
        "INSERT INTO queue (name, death, id, source, event_id, type, received_at_us, generation, attempts,
                            body_digest, facts, body)
         SELECT 'oncefold.dead', ?2, id, source, event_id, type, received_at_us, generation, attempts,
                body_digest, facts, body
         FROM queue WHERE sequence IN (SELECT value FROM json_each(?1)) ORDER BY sequence",
        sequences,
        death
    )
    .execute(&mut *conn)
    .await
    .map_err(store_error)?;
    delete(conn, &sequences).await
}

async fn delete(conn: &mut SqliteConnection, sequences: &str) -> Result<(), StoreError> {
    sqlx::query!("DELETE FROM queue WHERE sequence IN (SELECT value FROM json_each(?))", sequences)
        .execute(conn)
        .await
        .map(|_| ())
        .map_err(store_error)
}

/// Counts a delivery that ended without a verdict.
pub(super) async fn count_tries(conn: &mut SqliteConnection, sequences: &[i64]) -> Result<(), StoreError> {
    let sequences = array(sequences);
    sqlx::query!("UPDATE queue SET tries = tries + 1 WHERE sequence IN (SELECT value FROM json_each(?))", sequences)
        .execute(conn)
        .await
        .map(|_| ())
        .map_err(store_error)
}

/// Rows that the process before this one may have held when it ended.
pub(super) struct Interrupted {
    pub(super) name: String,
    /// Sequences lower than this.
    pub(super) before: i64,
    /// The first so many.
    pub(super) prefetch: i64,
}

/// Counts one try of each of them.
pub(super) async fn count_interrupted(conn: &mut SqliteConnection, rows: &Interrupted) -> Result<(), StoreError> {
    sqlx::query!(
        "UPDATE queue SET tries = tries + 1
         WHERE sequence IN (SELECT sequence FROM queue WHERE name = ?1 AND sequence < ?2 ORDER BY sequence LIMIT ?3)",
        rows.name,
        rows.before,
        rows.prefetch
    )
    .execute(conn)
    .await
    .map(|_| ())
    .map_err(store_error)
}
