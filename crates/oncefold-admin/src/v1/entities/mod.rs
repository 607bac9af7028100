//! Folded state.

pub mod get;
pub mod history;
pub mod list;
