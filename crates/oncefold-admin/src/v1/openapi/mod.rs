//! The description of this API.

mod document;
pub mod get;

pub use document::document;
