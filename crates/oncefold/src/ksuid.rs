//! Message ids as Svix makes them: `msg_` and a KSUID whose creation time has a resolution of 4 ms.

use oncefold_core::{Entropy, Timestamp};

const KSUID_EPOCH_S: i64 = 1_400_000_000;
const DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// A message id created at `at`.
pub fn message_id(at: Timestamp, entropy: &dyn Entropy) -> String {
    let mut bytes = [0u8; 20];
    let since_epoch_ms = (at.as_millis() - KSUID_EPOCH_S * 1_000).max(0);
    let seconds = u32::try_from(since_epoch_ms / 1_000).unwrap_or(u32::MAX);
    bytes[..4].copy_from_slice(&seconds.to_be_bytes());
    bytes[4] = u8::try_from(since_epoch_ms % 1_000 / 4).unwrap_or(u8::MAX);
    entropy.fill(&mut bytes[5..]);
    format!("msg_{}", base62(bytes))
}

/// 20 bytes as 27 base62 digits, most significant first.
fn base62(mut bytes: [u8; 20]) -> String {
    let mut digits = [b'0'; 27];
    for digit in digits.iter_mut().rev() {
        let mut remainder = 0u32;
        for byte in &mut bytes {
            let value = remainder << 8 | u32::from(*byte);
            *byte = u8::try_from(value / 62).unwrap_or(u8::MAX);
            remainder = value % 62;
        }
        *digit = DIGITS[remainder as usize];
    }
    digits.iter().map(|d| char::from(*d)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From segmentio/ksuid's README: the raw bytes and their text.
    #[test]
    fn base62_of_the_readme() {
        let mut raw = [0; 20];
        hex::decode_to_slice("0669F7EFB5A1CD34B5F99D1154FB6853345C9735", &mut raw).unwrap();
        assert_eq!(base62(raw), "0ujtsYcgvSTl8PAuAdqWYSMnLOv");
        assert_eq!(base62([0; 20]), "0".repeat(27));
        assert_eq!(base62([0xFF; 20]), "aWgEPTl1tmebfsQzFP4bxwgy80V");
    }
}
