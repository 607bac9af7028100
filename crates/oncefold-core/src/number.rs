//! Exact decimal numbers: one canonical text for both dialects, and bytes whose order is the order of the values.
//!
//! Numbers never pass through `f64`: ids and amounts beyond 2^53 stay exact.

use crate::limits::NUMBER_DIGITS_MAX;
use thiserror::Error;

/// Why a text is not a number we keep.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum NumberError {
    /// Not of the grammar of RFC 8259, section 6.
    #[error("is not a decimal number")]
    NotANumber,
    /// Written out it has more than [`NUMBER_DIGITS_MAX`] digits.
    #[error("has more than {NUMBER_DIGITS_MAX} digits when written out")]
    TooLong,
}

/// An exact decimal number: sign, digits, and how many of them follow the point.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decimal {
    negative: bool,
    /// ASCII digits; at least one stands before the point, without superfluous leading zeros.
    digits: Vec<u8>,
    scale: usize,
}

impl Decimal {
    /// Reads a JSON number (RFC 8259, section 6), exponent included.
    ///
    /// # Errors
    /// When the text is not of that grammar, or the number is too long when written out.
    pub fn parse(text: &str) -> Result<Self, NumberError> {
        let (negative, unsigned) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest));
        let (mantissa, exponent) = match unsigned.find(['e', 'E']) {
            Some(at) => (&unsigned[..at], parse_exponent(&unsigned[at + 1..])?),
            None => (unsigned, 0),
        };
        let (whole, fraction) = match mantissa.split_once('.') {
            Some((_, "")) => return Err(NumberError::NotANumber),
            Some(parts) => parts,
            None => (mantissa, ""),
        };
        let well_formed = !whole.is_empty()
            && (whole == "0" || !whole.starts_with('0'))
            && whole.bytes().chain(fraction.bytes()).all(|b| b.is_ascii_digit());
        if !well_formed {
            return Err(NumberError::NotANumber);
        }
        Self::shift(negative, whole, fraction, exponent)
    }

    fn shift(negative: bool, whole: &str, fraction: &str, exponent: i64) -> Result<Self, NumberError> {
        let mut digits: Vec<u8> = whole.bytes().chain(fraction.bytes()).collect();
        let zero = digits.iter().all(|d| *d == b'0');
        let scale = i64::try_from(fraction.len()).unwrap_or(i64::MAX).saturating_sub(exponent);
        let scale = if zero { scale.max(0) } else { scale };
        if digits.len() > NUMBER_DIGITS_MAX || scale.unsigned_abs() > NUMBER_DIGITS_MAX as u64 {
            return Err(NumberError::TooLong);
        }
        let scale = if scale < 0 {
            digits.extend(std::iter::repeat_n(b'0', usize::try_from(-scale).unwrap_or(0)));
            0
        } else {
            usize::try_from(scale).unwrap_or(0)
        };
        if digits.len() <= scale {
            let missing = scale + 1 - digits.len();
            digits.splice(0..0, std::iter::repeat_n(b'0', missing));
        }
        let superfluous = digits[..digits.len() - scale - 1].iter().take_while(|d| **d == b'0').count();
        digits.drain(..superfluous);
        if digits.len() > NUMBER_DIGITS_MAX {
            return Err(NumberError::TooLong);
        }
        Ok(Self { negative: negative && !zero, digits, scale })
    }

    /// Whether nothing follows the point.
    pub const fn is_integer(&self) -> bool {
        self.scale == 0
    }

    /// The number without exponent: `1.50`, `-3`, `100`. Trailing zeros after the point are kept, as PostgreSQL's
    /// `numeric` keeps them, so that both dialects show the same text.
    pub fn canonical(&self) -> String {
        let point = self.digits.len() - self.scale;
        let mut text = String::with_capacity(self.digits.len() + 2);
        if self.negative {
            text.push('-');
        }
        text.extend(self.digits[..point].iter().map(|d| char::from(*d)));
        if self.scale > 0 {
            text.push('.');
            text.extend(self.digits[point..].iter().map(|d| char::from(*d)));
        }
        text
    }

    /// Appends bytes that compare as the values do: sign, decimal exponent, significant digits, end mark; all but
    /// the sign complemented for a negative number. `1.5`, `1.50` and `15e-1` give the same bytes.
    pub fn encode_ordered(&self, out: &mut Vec<u8>) {
        let point = self.digits.len() - self.scale;
        let leading = self.digits.iter().take_while(|d| **d == b'0').count();
        let significant = self.digits[leading..].trim_ascii_end_zeros();
        if significant.is_empty() {
            out.push(0x11);
            return;
        }
        out.push(if self.negative { 0x10 } else { 0x12 });
        let mask = if self.negative { 0xFF } else { 0x00 };
        let exponent = i32::try_from(point).unwrap_or(i32::MAX) - i32::try_from(leading).unwrap_or(0);
        out.extend((exponent.cast_unsigned() ^ 0x8000_0000).to_be_bytes().map(|b| b ^ mask));
        out.extend(significant.iter().map(|d| (d - b'0' + 1) ^ mask));
        out.push(mask);
    }
}

trait TrimZeros {
    fn trim_ascii_end_zeros(&self) -> &[u8];
}

impl TrimZeros for [u8] {
    fn trim_ascii_end_zeros(&self) -> &[u8] {
        let end = self.iter().rposition(|d| *d != b'0').map_or(0, |at| at + 1);
        &self[..end]
    }
}

/// An exponent, held at the limits of what could matter: longer ones only say "too long".
fn parse_exponent(text: &str) -> Result<i64, NumberError> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err(NumberError::NotANumber);
    }
    let size = digits.trim_start_matches('0');
    let size = if size.is_empty() { 0 } else { size.parse().unwrap_or(1_000_000_000).min(1_000_000_000) };
    Ok(if text.starts_with('-') { -size } else { size })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ordered(text: &str) -> Vec<u8> {
        let mut out = vec![];
        Decimal::parse(text).unwrap().encode_ordered(&mut out);
        out
    }

    /// Expected texts are what PostgreSQL 15 prints for `'…'::numeric`.
    #[test]
    fn canonical_is_what_numeric_prints() {
        for (text, expected) in [
            ("0", "0"),
            ("-0", "0"),
            ("-0.0", "0.0"),
            ("1.50", "1.50"),
            ("1e2", "100"),
            ("1.5e1", "15"),
            ("1.50e1", "15.0"),
            ("1e-3", "0.001"),
            ("0e5", "0"),
            ("0e-5", "0.00000"),
            ("-12.30E-1", "-1.230"),
            ("9007199254740993", "9007199254740993"),
            ("0.00e1", "0.0"),
            ("10.0e-1", "1.00"),
        ] {
            assert_eq!(Decimal::parse(text).unwrap().canonical(), expected, "{text}");
        }
    }

    #[test]
    fn refuses_what_json_refuses_and_what_is_too_long() {
        for text in ["", "-", "+1", "01", ".5", "1.", "1e", "1e+", "0x1", "NaN", "1 ", "1_0", "١"] {
            assert_eq!(Decimal::parse(text), Err(NumberError::NotANumber), "{text}");
        }
        let long = "1".repeat(NUMBER_DIGITS_MAX + 1);
        for text in ["1e1000", "1e-1000", "1e99999999999999999999", "1e-99999999999999999999", &long] {
            assert_eq!(Decimal::parse(text), Err(NumberError::TooLong), "{text}");
        }
        assert_eq!(Decimal::parse("1e999").unwrap().canonical().len(), 1000);
        assert_eq!(Decimal::parse("0e99999999999999999999").unwrap().canonical(), "0");
    }

    proptest! {
        #[test]
        fn bytes_compare_as_the_values_do(a in -100_000i64..100_000, b in -100_000i64..100_000, sa in 0u32..6, sb in 0u32..6) {
            let text = |n: i64, s: u32| format!("{n}e-{s}");
            let scaled = |n: i64, s: u32| i128::from(n) * 10i128.pow(6 - s);
            prop_assert_eq!(ordered(&text(a, sa)).cmp(&ordered(&text(b, sb))), scaled(a, sa).cmp(&scaled(b, sb)));
        }

        #[test]
        fn no_ordered_number_is_a_prefix_of_another(a in "-?[1-9][0-9]{0,8}(\\.[0-9]{1,5})?", b in "-?[1-9][0-9]{0,8}(\\.[0-9]{1,5})?") {
            let (a, b) = (ordered(&a), ordered(&b));
            prop_assert!(a == b || !b.starts_with(&a));
        }
    }
}
