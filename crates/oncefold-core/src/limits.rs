//! Every bound of the product in one place (contract.md, "Bounds, else parked").

use std::time::Duration;

/// Longest event type, bytes; longer is `mapping.bad_type`.
pub const TYPE_BYTES_MAX: usize = 200;
/// Longest event id, bytes; longer is `mapping.bad_id`.
pub const EVENT_ID_BYTES_MAX: usize = 256;
/// Longest entity key, bytes; longer is `mapping.bad_key`.
pub const KEY_BYTES_MAX: usize = 512;
/// Longest text that may stand in a version, bytes; longer is `mapping.bad_version`.
pub const VERSION_TEXT_BYTES_MAX: usize = 512;
/// Stored request headers of one delivery, names and values together, bytes.
pub const STORED_HEADERS_BYTES_MAX: usize = 16 * 1024;
/// Stored query string of one delivery, bytes.
pub const STORED_QUERY_BYTES_MAX: usize = 8 * 1024;
/// Stored `Content-Type` of one delivery, bytes; an AMQP short string holds it.
pub const CONTENT_TYPE_BYTES_MAX: usize = 200;
/// Deepest nesting of a JSON body; deeper is `mapping.invalid_json`.
pub const JSON_DEPTH_MAX: usize = 128;
/// Most digits of one number, written out without an exponent; more is `mapping.bad_number`.
pub const NUMBER_DIGITS_MAX: usize = 1_000;
/// Longest failure message that is kept or logged, bytes.
pub const FAILURE_MESSAGE_BYTES_MAX: usize = 500;
/// How far past `received_at` an instant in a version may lie; further is `mapping.future_version`.
pub const VERSION_SKEW: Duration = Duration::from_secs(600);
/// Shortest time that event ids may be remembered (P8).
pub const IDS_RETENTION_MIN: Duration = Duration::from_secs(72 * 3600);
/// Deliveries of one message after which the broker gives it up (`x-delivery-limit`), embedded queue included.
pub const DELIVERY_LIMIT: u32 = 20;
/// Processes that may try one suspect alone; where each of so many ended while it did, the message is the poison. One
/// process may have ended for its own reasons, so many in a row have not.
pub const TRIAL_STARTS_MAX: u32 = 3;
/// How long a request under an `Idempotency-Key` may be in the making; without an answer after this, its process has
/// died, and the key is taken over by the same request that comes again.
pub const IDEMPOTENT_ANSWER_MAX: Duration = Duration::from_secs(60);
/// Deliveries of one source that the rejected log keeps.
pub const REJECTED_ROWS_MAX: u32 = 1_000;
/// Longest body that the rejected log keeps, bytes.
pub const REJECTED_BODY_BYTES_MAX: usize = 32 * 1024;
/// Items of a page: the most, and where the caller says nothing.
pub const PAGE_MAX: u32 = 500;
/// Items of a page where the caller says nothing.
pub const PAGE_DEFAULT: u32 = 50;
/// Length of the digest that ends an order key, bytes (SHA-256).
pub const DIGEST_BYTES: usize = 32;

const _: () = assert!(TYPE_BYTES_MAX < 255, "an AMQP short string holds 255 bytes");
const _: () = assert!(CONTENT_TYPE_BYTES_MAX < 255, "an AMQP short string holds 255 bytes");
const _: () = assert!(PAGE_DEFAULT <= PAGE_MAX);
