//! Deliveries that did not verify.

pub mod list;
