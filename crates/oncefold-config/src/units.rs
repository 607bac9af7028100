//! Durations and sizes as the config writes them.

use std::time::Duration;

const DURATION_UNITS_MS: [(&str, u64); 5] =
    [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];
const SIZE_UNITS: [(&str, usize); 4] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)];

/// A whole number and one of `ms`, `s`, `m`, `h`, `d`.
pub(crate) fn duration(text: &str) -> Option<Duration> {
    let (number, unit) = split(text)?;
    let (_, unit_ms) = DURATION_UNITS_MS.into_iter().find(|(name, _)| *name == unit)?;
    number.parse::<u64>().ok()?.checked_mul(unit_ms).map(Duration::from_millis)
}

/// A whole number, alone or with one of `B`, `KiB`, `MiB`, `GiB`.
pub(crate) fn size(text: &str) -> Option<usize> {
    let (number, unit) = split(text)?;
    let factor = if unit.is_empty() { Some(1) } else { SIZE_UNITS.into_iter().find(|u| u.0 == unit).map(|u| u.1) };
    number.parse::<usize>().ok()?.checked_mul(factor?)
}

/// Digits, and what follows them after any spaces.
fn split(text: &str) -> Option<(&str, &str)> {
    let text = text.trim();
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    (digits > 0).then(|| (&text[..digits], text[digits..].trim_start()))
}

/// The duration in its largest whole unit.
pub(crate) fn shown_duration(duration: Duration) -> String {
    let millis = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    let unit = DURATION_UNITS_MS.into_iter().find(|(_, unit_ms)| millis.is_multiple_of(*unit_ms) && millis > 0);
    unit.map_or_else(|| format!("{millis}ms"), |(name, unit_ms)| format!("{}{name}", millis / unit_ms))
}

/// The size in its largest whole unit.
pub(crate) fn shown_size(size: usize) -> String {
    let unit = SIZE_UNITS.into_iter().find(|(_, factor)| size.is_multiple_of(*factor) && size > 0);
    unit.map_or_else(|| format!("{size}B"), |(name, factor)| format!("{}{name}", size / factor))
}
