use crate::error::store_error;
use crate::rows::Rows;
use crate::writer::Publish;
use oncefold_core::store::StoreError;
use sqlx::SqliteConnection;

/// Id and digest of a message, in the blob.
const IDS_BYTES: usize = 16 + 32;

/// Puts messages on the work queues of their sources, in this order, with one statement. The answer is the sequence
/// of the first of them.
pub(crate) async fn insert(conn: &mut SqliteConnection, publishes: &[Publish]) -> Result<Option<i64>, StoreError> {
    if publishes.is_empty() {
        return Ok(None);
    }
    let bytes = publishes.iter().map(|p| p.message.body.len() + p.message.facts.as_str().len() + IDS_BYTES).sum();
    let mut rows = Rows::with_capacity(publishes.len(), bytes);
    // The statement finds these by the row's place.
    for Publish { message, .. } in publishes {
        rows.put(message.id.as_bytes());
        rows.put(message.digest.as_bytes());
    }
    for Publish { message, .. } in publishes {
        let (facts, body) = (message.facts.as_str(), &message.body);
        let (facts_at, body_at) = (rows.put(facts.as_bytes()), rows.put(body));
        rows.push(&(
            message.source.as_str(),
            &message.event_id,
            &message.event_type,
            message.received_at.as_micros(),
            (message.generation, message.attempts),
            (facts_at, facts.len(), body_at, body.len()),
        ));
    }
    let (json, blob) = rows.finish();
    let inserted = sqlx::query!(
        "INSERT INTO queue (name, source, event_id, type, received_at_us, generation, attempts, id, body_digest, facts,
                            body)
         SELECT 'oncefold.work.' || (value ->> 0), value ->> 0, value ->> 1, value ->> 2, value ->> 3,
                value ->> '$[4][0]', value ->> '$[4][1]', substr(?2, key * 48 + 1, 16), substr(?2, key * 48 + 17, 32),
                CAST(substr(?2, value ->> '$[5][0]', value ->> '$[5][1]') AS TEXT),
                substr(?2, value ->> '$[5][2]', value ->> '$[5][3]')
         FROM jsonb_each(?1)",
        json,
        blob
    )
    .execute(conn)
    .await
    .map_err(store_error)?;
    let others = i64::try_from(publishes.len()).unwrap_or(0) - 1;
    Ok(Some(inserted.last_insert_rowid() - others))
}
