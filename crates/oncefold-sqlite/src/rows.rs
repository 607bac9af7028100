//! The rows of one statement: a JSON array for `jsonb_each`, and one blob beside it which holds whatever JSON would
//! make larger (bodies, states, digests, keys). The statement cuts it with `substr`, which counts bytes in blobs.
//! Through the driver the number of statements costs more than fsync: hence one statement for many rows. It is
//! `jsonb_each` (SQLite 3.51), not `json_each`: that one writes a row out as text and parses it again for every value
//! that is read of it (13 us a row of 17 values, against 5).

use serde::Serialize;

/// Collects rows.
#[derive(Debug)]
pub(crate) struct Rows {
    json: Vec<u8>,
    blob: Vec<u8>,
    count: usize,
}

impl Rows {
    pub(crate) fn with_capacity(rows: usize, bytes: usize) -> Self {
        let mut json = Vec::with_capacity(rows * 160 + 2);
        json.push(b'[');
        Self { json, blob: Vec::with_capacity(bytes), count: 0 }
    }

    /// Puts bytes aside; the answer is where `substr` finds them, from 1.
    pub(crate) fn put(&mut self, bytes: &[u8]) -> usize {
        let at = self.blob.len() + 1;
        self.blob.extend_from_slice(bytes);
        at
    }

    /// Adds a row: a tuple of small values.
    pub(crate) fn push(&mut self, row: &impl Serialize) {
        if self.count > 0 {
            self.json.push(b',');
        }
        self.count += 1;
        // Writing tuples of texts and numbers into memory does not fail; if it did, the statement would.
        let _ = serde_json::to_writer(&mut self.json, row);
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub(crate) fn len(&self) -> u64 {
        self.count as u64
    }

    /// The JSON array and the blob, ready to be bound.
    pub(crate) fn finish(mut self) -> (String, Vec<u8>) {
        self.json.push(b']');
        (String::from_utf8(self.json).unwrap_or_default(), self.blob)
    }
}

/// A JSON array of these values.
pub(crate) fn array<T: Serialize>(values: impl IntoIterator<Item = T>) -> String {
    let values: Vec<T> = values.into_iter().collect();
    serde_json::to_string(&values).unwrap_or_default()
}
