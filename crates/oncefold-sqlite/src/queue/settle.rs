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

/// Deletes rows; the sequences are a JSON array.
pub(crate) async fn delete(conn: &mut SqliteConnection, sequences: &str) -> Result<(), StoreError> {
    sqlx::query!("DELETE FROM queue WHERE sequence IN (SELECT value FROM json_each(?))", sequences)
        .execute(conn)
        .await
        .map(|_| ())
        .map_err(store_error)
}

/// A subscription of a queue begins.
pub(super) struct Beginning {
    pub(super) name: String,
    /// The first of this process.
    pub(super) first: bool,
    /// Rows with lower sequences may have been held by the process before this one…
    pub(super) before: i64,
    /// …the first so many.
    pub(super) prefetch: i64,
}

/// Notes that this process takes from the queue. Where the process before it did and ended without saying so, one try is
/// counted of each row that it may have held.
pub(super) async fn begin(conn: &mut SqliteConnection, beginning: &Beginning) -> Result<(), StoreError> {
    let noted = sqlx::query!("INSERT INTO takers (name) VALUES (?) ON CONFLICT DO NOTHING", beginning.name)
        .execute(&mut *conn)
        .await
        .map_err(store_error)?;
    if noted.rows_affected() == 1 || !beginning.first {
        return Ok(());
    }
    sqlx::query!(
        "UPDATE queue SET tries = tries + 1
         WHERE sequence IN (SELECT sequence FROM queue WHERE name = ?1 AND sequence < ?2 ORDER BY sequence LIMIT ?3)",
        beginning.name,
        beginning.before,
        beginning.prefetch
    )
    .execute(conn)
    .await
    .map(|_| ())
    .map_err(store_error)
}

/// A subscription ends.
pub(super) struct End {
    /// What it held: deliveries that ended without a verdict.
    pub(super) held: Vec<i64>,
    /// The queue, where it was this process's last of it.
    pub(super) last_of: Option<String>,
}

/// Counts a try of each row that was held, and notes that the process does not take from the queue any more.
pub(super) async fn end(conn: &mut SqliteConnection, end: &End) -> Result<(), StoreError> {
    let held = array(&end.held);
    sqlx::query!("UPDATE queue SET tries = tries + 1 WHERE sequence IN (SELECT value FROM json_each(?))", held)
        .execute(&mut *conn)
        .await
        .map_err(store_error)?;
    sqlx::query!("DELETE FROM takers WHERE name = ?", end.last_of).execute(conn).await.map(|_| ()).map_err(store_error)
}
