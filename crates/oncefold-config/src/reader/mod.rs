//! A reader of TOML that knows where everything stands: typed readings that record what is wrong instead of stopping.

mod context;
mod node;
mod schema;
mod table;

pub(crate) use context::{Context, Place, Setting};
pub(crate) use node::{Node, quoted};
pub(crate) use schema::Schema;
pub(crate) use table::Table;
