//! One file per scheme, and what several share: where a signature stands, what it is over, which time it covers.

pub(crate) mod adyen;
pub(crate) mod basic;
pub(crate) mod ed25519;
pub(crate) mod hmac;
pub(crate) mod none;
pub(crate) mod paypal;
pub(crate) mod signature_place;
pub(crate) mod signed_template;
pub(crate) mod signed_time;
pub(crate) mod sns;
pub(crate) mod standard_webhooks;
pub(crate) mod stripe;
pub(crate) mod token;
pub(crate) mod twilio;
