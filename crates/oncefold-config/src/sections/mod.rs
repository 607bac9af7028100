//! One file per section: its keys, its validation, what it becomes.

pub(crate) mod admin;
pub(crate) mod certificates;
pub(crate) mod handshake;
pub(crate) mod identity;
pub(crate) mod ingest;
pub(crate) mod listen;
pub(crate) mod ops;
pub(crate) mod projection;
pub(crate) mod queue;
pub(crate) mod respond;
pub(crate) mod retention;
pub(crate) mod retry;
pub(crate) mod root;
pub(crate) mod secrets;
pub(crate) mod source;
pub(crate) mod state;
pub(crate) mod store;
pub(crate) mod verify;
pub(crate) mod version;
pub(crate) mod worker;

use crate::reader::Schema;

/// Every kind of table: where a key that stands in the wrong one belongs, and what the reference has to explain.
pub(crate) const SCHEMAS: &[&Schema] = &[
    &root::SCHEMA,
    &store::SCHEMA,
    &queue::SCHEMA,
    &ingest::SCHEMA,
    &admin::SCHEMA,
    &admin::TOKEN_SCHEMA,
    &ops::SCHEMA,
    &worker::SCHEMA,
    &retry::SCHEMA,
    &retention::SCHEMA,
    &source::SCHEMA,
    &identity::ID_SCHEMA,
    &identity::PART_SCHEMA,
    &respond::SCHEMA,
    &verify::SCHEMA,
    &handshake::SCHEMA,
    &projection::SCHEMA,
    &version::SCHEMA,
    &projection::RANK_SCHEMA,
    &state::SCHEMA,
];
