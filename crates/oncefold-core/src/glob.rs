//! Globs over event types: `*` matches any characters, `.` and `/` included; everything else is itself.

/// A compiled pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Glob {
    text: String,
}

impl Glob {
    /// The pattern with this text; every text is a pattern.
    pub fn parse(text: &str) -> Self {
        Self { text: text.to_owned() }
    }

    /// The text it was made from.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether `candidate` matches, from its first byte to its last. Linear in both lengths.
    pub fn matches(&self, candidate: &str) -> bool {
        let Some((head, rest)) = self.text.split_once('*') else { return self.text == candidate };
        let Some(mut left) = candidate.strip_prefix(head) else { return false };
        let mut parts = rest.split('*').peekable();
        while let Some(part) = parts.next() {
            if parts.peek().is_none() {
                return left.ends_with(part);
            }
            match left.find(part) {
                Some(at) => left = &left[at + part.len()..],
                None => return false,
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::Glob;

    #[test]
    fn star_crosses_dots_and_slashes() {
        for (pattern, candidate, expected) in [
            ("orders/*", "orders/create", true),
            ("orders/*", "orders/", true),
            ("orders/*", "order/create", false),
            ("*", "", true),
            ("*", "a.b/c", true),
            ("order.*.done", "order.line.item.done", true),
            ("order.*.done", "order.done", false),
            ("*a*a", "aa", true),
            ("*a*a", "a", false),
            ("a*a", "a", false),
            ("exact", "exact", true),
            ("exact", "exact ", false),
            ("é*", "éa", true),
        ] {
            assert_eq!(Glob::parse(pattern).matches(candidate), expected, "{pattern} on {candidate}");
        }
    }
}
