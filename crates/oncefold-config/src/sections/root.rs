//! The top of the file.

use crate::reader::Schema;

pub(crate) const SCHEMA: Schema = Schema {
    title: "the top of the file",
    keys: &["store", "queue", "ingest", "admin", "ops", "worker", "retry", "retention", "sources"],
    later: &["effects", "fetch", "reconcile", "reconciliation", "reconciliations"],
};
