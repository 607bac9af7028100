//! Sources.

pub mod list;
