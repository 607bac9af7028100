//! The public verification interface, against published vectors and an independent HMAC (ring).

mod properties;
