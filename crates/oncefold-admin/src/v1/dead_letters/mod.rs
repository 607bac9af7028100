//! Dead letters: events that will not be retried by themselves.

pub mod discard;
pub mod get;
pub mod groups;
pub mod list;
pub mod replay;
