//! One file per scheme.

pub(crate) mod basic;
pub(crate) mod hmac;
pub(crate) mod none;
pub(crate) mod signed_template;
pub(crate) mod standard_webhooks;
pub(crate) mod stripe;
pub(crate) mod token;
