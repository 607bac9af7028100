//! Pure verification of webhook signatures: raw bytes, headers, secrets and a given time make a [`Verdict`].
//!
//! No clock, no I/O, no global state. Every scheme is one file under `schemes/`; adding a provider whose rules an
//! existing scheme expresses needs settings only. What holds throughout:
//!
//! * Fails closed: a header that is missing, repeated or malformed is a rejection, never a skipped check.
//! * The body is hashed as the bytes that came; timestamps are signed as the raw header text.
//! * Comparisons are constant-time, on bytes of fixed length.
//! * Nothing here prints a secret or an expected signature; details are bounded and escaped.

mod certificate;
mod diagnosis;
mod encoding;
mod handshake;
mod json_members;
mod mac;
mod request;
mod scheme;
mod schemes;
mod secret;
mod signed_url;
mod signing;
mod time;
mod verdict;

pub use certificate::{CertificateError, CertificateRequest, SigningCertificate, TrustRoots};
pub use handshake::{Answer, Handshake, Reply};
pub use mac::HmacAlgorithm;
pub use request::Request;
pub use scheme::{Item, Scheme, Verifier};
pub use schemes::adyen::UNSIGNED_FIELDS as ADYEN_UNSIGNED_FIELDS;
pub use schemes::ed25519::Ed25519Scheme;
pub use schemes::hmac::{HmacScheme, KeyEncoding};
pub use schemes::paypal::PayPalScheme;
pub use schemes::signature_place::{HeaderFields, SignatureEncoding, SignaturePlace};
pub use schemes::signed_template::{SignedTemplate, TemplateError};
pub use schemes::signed_time::{SignedTime, TimestampFormat, TimestampPlace};
pub use schemes::sns::SnsScheme;
pub use schemes::standard_webhooks::{HeaderFamily, StandardWebhooks};
pub use schemes::stripe::StripeScheme;
pub use schemes::token::{TokenPlace, TokenScheme};
pub use schemes::twilio::TwilioScheme;
pub use secret::{EmptySecret, KeyError, Secret};
pub use signing::{SignError, Signed};
pub use time::UnixTime;
pub use verdict::{Rejection, RejectionReason, Verdict, Verified};
