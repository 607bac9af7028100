//! The keys of each kind of table, and what to say of a key that is none of them.

use crate::sections::SCHEMAS;

/// The keys a kind of table may have.
#[derive(Debug)]
pub(crate) struct Schema {
    /// How it is called in messages and in the reference: `[store]`, `[[sources.X.projections]]`.
    pub title: &'static str,
    /// What may stand in it.
    pub keys: &'static [&'static str],
    /// Words of later versions.
    pub later: &'static [&'static str],
}

/// Likeness (Jaro-Winkler, 0 to 1) from which a word is taken for a slip of another.
const LIKENESS_MIN: f64 = 0.8;
/// Likeness from which that is likelier than a key that went to the wrong table.
const SAME_BUT_FOR_A_SLIP: f64 = 0.92;

impl Schema {
    /// Message and mend for a key that is not in this table.
    pub fn about_unknown(&self, key: &str) -> (String, String) {
        let shown: String = key.chars().take(80).flat_map(char::escape_debug).collect();
        if self.later.contains(&key) {
            return (format!("`{shown}` is not in this version"), "remove it".to_owned());
        }
        let unknown = format!("`{shown}` is no key of {}", self.title);
        let close = most_like(key, self.keys).filter(|(likeness, _)| *likeness >= LIKENESS_MIN);
        if let Some((_, close)) = close.filter(|(likeness, _)| *likeness >= SAME_BUT_FOR_A_SLIP) {
            return (unknown, format!("did you mean `{close}`?"));
        }
        let homes: Vec<_> = SCHEMAS.iter().filter(|s| s.keys.contains(&key)).map(|s| s.title).collect();
        if !homes.is_empty() {
            return (unknown, format!("it belongs in {}", homes.join(" or ")));
        }
        if let Some((_, close)) = close {
            return (unknown, format!("did you mean `{close}`?"));
        }
        if self.keys.is_empty() {
            return (unknown, "remove it: nothing may stand there".to_owned());
        }
        (unknown, format!("remove it, or use one of {}", self.keys.join(", ")))
    }
}

/// The candidate that `text` was most likely meant to be.
pub(crate) fn closest<'c>(text: &str, candidates: &[&'c str]) -> Option<&'c str> {
    most_like(text, candidates).filter(|(likeness, _)| *likeness >= LIKENESS_MIN).map(|(_, candidate)| candidate)
}

fn most_like<'c>(text: &str, candidates: &[&'c str]) -> Option<(f64, &'c str)> {
    let plain = |text: &str| text.to_ascii_lowercase().replace('-', "_");
    let text = plain(text);
    let scored = candidates.iter().map(|candidate| (strsim::jaro_winkler(&text, &plain(candidate)), *candidate));
    scored.max_by(|a, b| a.0.total_cmp(&b.0))
}
