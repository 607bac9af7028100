//! Log lines of deliveries. An accepted one gets a line; what is not accepted gets so many lines a second and source,
//! then a count of those left out, so that a forger cannot fill a disk.

use crate::answer::Refusal;
use std::borrow::Cow;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::time::Instant;
use tracing::{error, warn};

/// Lines of one budget in one [`WINDOW`].
const LINES_MAX: u32 = 10;
const WINDOW: Duration = Duration::from_secs(1);
/// Longest text of one line's detail, characters.
const DETAIL_CHARS_MAX: usize = 400;
/// Longest piece of a path that is logged, characters.
const NAME_CHARS_MAX: usize = 64;

/// How many more lines may be written.
pub(crate) struct LineBudget(Mutex<Window>);

struct Window {
    ends: Instant,
    written: u32,
    left_out: u64,
}

impl LineBudget {
    pub(crate) fn full() -> Self {
        Self(Mutex::new(Window { ends: Instant::now() + WINDOW, written: 0, left_out: 0 }))
    }

    /// Whether a line may be written.
    pub(crate) fn admits(&self) -> bool {
        let mut window = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        if now >= window.ends {
            window.ends = now + WINDOW;
            window.written = 0;
        }
        if window.written < LINES_MAX {
            window.written += 1;
            return true;
        }
        window.left_out += 1;
        false
    }

    /// Says how many lines were left out since this was asked last.
    pub(crate) fn settle(&self, source: &str) {
        let left_out = std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner).left_out);
        if left_out > 0 {
            warn!(target: "oncefold::ingest", source, suppressed = left_out, "more lines of this kind were left out");
        }
    }
}

/// Writes that a delivery was not accepted. `name` is what stood in the path where no source of that name is known.
pub(crate) fn refused(source: &str, budget: &LineBudget, refusal: &Refusal, trace: &str, name: Option<&str>) {
    if !budget.admits() {
        return;
    }
    let (outcome, reason) = (refusal.outcome().as_str(), refusal.reason());
    let detail = detail(refusal);
    let name = name.map(excerpt);
    let name = name.as_deref();
    if matches!(refusal, Refusal::Unavailable(..) | Refusal::NoCertificate(_) | Refusal::CutOff) {
        error!(target: "oncefold::ingest", source, outcome, reason, detail, trace, "delivery not kept");
    } else {
        warn!(target: "oncefold::ingest", source, outcome, reason, detail, name, trace, "delivery not accepted");
    }
}

/// An error's text, cut.
pub(crate) fn detail(error: &impl std::error::Error) -> String {
    error.to_string().chars().take(DETAIL_CHARS_MAX).collect()
}

/// A text as [`str::escape_debug`] has it; most need no escapes.
pub(crate) fn escaped(text: &str) -> Cow<'_, str> {
    let is_plain = |byte| matches!(byte, b' '..=b'~') && !matches!(byte, b'"' | b'\'' | b'\\');
    if text.bytes().all(is_plain) { Cow::Borrowed(text) } else { Cow::Owned(text.escape_debug().to_string()) }
}

/// A short, escaped piece of what somebody sent.
fn excerpt(text: &str) -> String {
    let mut shown: String = text.chars().take(NAME_CHARS_MAX).flat_map(char::escape_debug).collect();
    if text.chars().nth(NAME_CHARS_MAX).is_some() {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
#[path = "report_tests.rs"]
mod tests;
