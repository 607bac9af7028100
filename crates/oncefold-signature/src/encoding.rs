//! Encoding, strict decoding of presented signatures, lenient decoding of configured keys.

use base64::Engine as _;
use base64::alphabet;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig, STANDARD};

/// Longest signature that is decoded without allocating: HMAC-SHA-512 or ed25519.
const LONGEST_SIGNATURE: usize = 64;

/// A presented signature's bytes.
#[derive(Clone, Copy)]
pub(crate) struct Presented {
    bytes: [u8; LONGEST_SIGNATURE],
    len: usize,
}

impl Presented {
    pub(crate) fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// Lower-case hex of exactly `len` bytes. Upper case is refused, as the official libraries compare text.
pub(crate) fn signature_from_hex(text: &[u8], len: usize) -> Option<Presented> {
    if text.len() != len * 2 || text.iter().any(u8::is_ascii_uppercase) {
        return None;
    }
    let mut bytes = [0; LONGEST_SIGNATURE];
    hex::decode_to_slice(text, bytes.get_mut(..len)?).ok()?;
    Some(Presented { bytes, len })
}

/// Base64 of exactly `len` bytes: standard alphabet, padded, canonical, no white space.
pub(crate) fn signature_from_base64(text: &[u8], len: usize) -> Option<Presented> {
    if text.len() != len.div_ceil(3) * 4 {
        return None;
    }
    // The decoder wants room for whole groups of three.
    let mut room = [0; LONGEST_SIGNATURE + 2];
    let written = STANDARD.decode_slice(text, &mut room).ok()?;
    let mut bytes = [0; LONGEST_SIGNATURE];
    bytes.copy_from_slice(&room[..LONGEST_SIGNATURE]);
    (written == len).then_some(Presented { bytes, len })
}

const ANY_PADDING: GeneralPurposeConfig =
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
const KEY_BASE64: GeneralPurpose = GeneralPurpose::new(&alphabet::STANDARD, ANY_PADDING);
const URL_BASE64: GeneralPurpose = GeneralPurpose::new(&alphabet::URL_SAFE, ANY_PADDING);

/// Base64, standard alphabet, padded.
pub(crate) fn to_base64(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// A configured key in base64: standard alphabet, padding optional since it is lost in pasting.
pub(crate) fn key_from_base64(text: &str) -> Option<Vec<u8>> {
    KEY_BASE64.decode(text).ok()
}

/// Resolves the entities of `wp_specialchars_decode(…, ENT_QUOTES)` of WordPress, once.
pub(crate) fn html_unescaped(text: &str) -> String {
    const ENTITIES: [(&str, &str); 14] = [
        ("&lt;", "<"),
        ("&#60;", "<"),
        ("&#x3c;", "<"),
        ("&gt;", ">"),
        ("&#62;", ">"),
        ("&#x3e;", ">"),
        ("&amp;", "&"),
        ("&#38;", "&"),
        ("&#x26;", "&"),
        ("&quot;", "\""),
        ("&#34;", "\""),
        ("&#x22;", "\""),
        ("&#039;", "'"),
        ("&#x27;", "'"),
    ];
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('&') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let (entity, character) = ENTITIES.iter().find(|(entity, _)| rest.starts_with(entity)).unwrap_or(&("&", "&"));
        out.push_str(character);
        rest = &rest[entity.len()..];
    }
    out.push_str(rest);
    out
}

/// Writes the entities of `htmlspecialchars(…, ENT_QUOTES)` of PHP; for diagnosis only.
pub(crate) fn html_escaped(text: &str) -> String {
    let entities = [("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ("\"", "&quot;"), ("'", "&#039;")];
    entities.iter().fold(text.to_owned(), |text, (from, to)| text.replace(from, to))
}

/// Longest base64 of an RSA signature: a key of 8,192 bits.
const LONGEST_RSA_TEXT: usize = 1_368;

/// Canonical base64 of an RSA signature, 256 to 1,024 bytes.
pub(crate) fn rsa_signature(text: &[u8]) -> Option<Vec<u8>> {
    let bytes = (text.len() <= LONGEST_RSA_TEXT).then(|| STANDARD.decode(text).ok()).flatten()?;
    (256..=1_024).contains(&bytes.len()).then_some(bytes)
}

/// What a presented signature may be in any encoding; for diagnosis only.
pub(crate) fn readings(text: &[u8]) -> Vec<(&'static str, Vec<u8>)> {
    let hex = hex::decode(text).ok().map(|bytes| ("hex", bytes));
    let standard = KEY_BASE64.decode(text).ok().map(|bytes| ("base64", bytes));
    let url_safe = URL_BASE64.decode(text).ok().map(|bytes| ("URL-safe base64", bytes));
    hex.into_iter().chain(standard).chain(url_safe).collect()
}
