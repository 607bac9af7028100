//! A value with its place, and the readings of it.

use crate::reader::schema::closest;
use crate::reader::{Context, Place, Schema, Table};
use crate::units;
use oncefold_core::locator::Locator;
use std::ops::RangeInclusive;
use std::time::Duration;
use toml::de::DeValue;

/// A value of the file. Readings give nothing, and record why, where it is not what they read.
#[derive(Clone)]
pub(crate) struct Node<'a> {
    pub context: &'a Context<'a>,
    pub value: &'a DeValue<'a>,
    pub place: Place,
}

impl<'a> Node<'a> {
    /// Records what has to be mended here.
    pub fn problem(&self, message: impl Into<String>, mend: impl Into<String>) {
        self.context.problem(&self.place, message, mend);
    }

    /// Records that the value is of another type than what stands there.
    fn wrong_type<T>(&self, expected: &str) -> Option<T> {
        let found = match self.value {
            DeValue::String(_) => "a text",
            DeValue::Integer(_) => "an integer",
            DeValue::Float(_) => "a float",
            DeValue::Boolean(_) => "a boolean",
            DeValue::Datetime(_) => "a date-time",
            DeValue::Array(_) => "a list",
            DeValue::Table(_) => "a table",
        };
        self.problem(format!("is {found}"), format!("write {expected}"));
        None
    }

    /// A text; `expected` says in a problem what should stand there.
    pub fn text(&self, expected: &str) -> Option<&'a str> {
        match self.value {
            DeValue::String(text) => Some(text.as_ref()),
            _ => self.wrong_type(expected),
        }
    }

    /// A boolean.
    pub fn boolean(&self) -> Option<bool> {
        match self.value {
            DeValue::Boolean(flag) => Some(*flag),
            _ => self.wrong_type("true or false"),
        }
    }

    /// An integer within bounds.
    pub fn integer(&self, bounds: RangeInclusive<u32>) -> Option<u32> {
        let expected = format!("an integer from {} to {}", bounds.start(), bounds.end());
        let DeValue::Integer(integer) = self.value else { return self.wrong_type(&expected) };
        let number = i128::from_str_radix(integer.as_str(), integer.radix()).ok();
        let fitting = number.and_then(|n| u32::try_from(n).ok()).filter(|n| bounds.contains(n));
        if fitting.is_none() {
            self.problem("is out of bounds", format!("write {expected}"));
        }
        fitting
    }

    /// A duration within bounds.
    pub fn duration(&self, bounds: RangeInclusive<Duration>) -> Option<Duration> {
        let text = self.text("a duration in quotes, such as \"2s\", \"10ms\", \"15m\", \"1h\" or \"35d\"")?;
        let Some(duration) = units::duration(text) else {
            self.problem(
                format!("{} is not a duration", quoted(text)),
                "write a whole number and one of ms, s, m, h, d, such as \"2s\"",
            );
            return None;
        };
        if bounds.contains(&duration) {
            return Some(duration);
        }
        let (least, most) = (units::shown_duration(*bounds.start()), units::shown_duration(*bounds.end()));
        self.problem(format!("{} is out of bounds", quoted(text)), format!("choose from {least} to {most}"));
        None
    }

    /// A size in bytes within bounds.
    pub fn size(&self, bounds: RangeInclusive<usize>) -> Option<usize> {
        let size = match self.value {
            DeValue::Integer(integer) => usize::from_str_radix(integer.as_str(), integer.radix()).ok(),
            DeValue::String(text) => units::size(text),
            _ => return self.wrong_type("a size such as \"1MiB\", \"512KiB\" or a number of bytes"),
        };
        let Some(size) = size else {
            self.problem("is not a size", "write bytes as a number, or a whole number and one of B, KiB, MiB, GiB");
            return None;
        };
        if bounds.contains(&size) {
            return Some(size);
        }
        let (least, most) = (units::shown_size(*bounds.start()), units::shown_size(*bounds.end()));
        self.problem("is out of bounds", format!("choose from {least} to {most}"));
        None
    }

    /// One of some words.
    pub fn choice<T: Copy>(&self, choices: &[(&str, T)]) -> Option<T> {
        let words: Vec<_> = choices.iter().map(|(word, _)| *word).collect();
        let expected = format!("one of {}", words.iter().map(|w| format!("{w:?}")).collect::<Vec<_>>().join(", "));
        let text = self.text(&expected)?;
        if let Some((_, value)) = choices.iter().find(|(word, _)| *word == text) {
            return Some(*value);
        }
        let mend = match closest(text, &words) {
            Some(close) => format!("did you mean {close:?}? It is {expected}"),
            None => format!("write {expected}"),
        };
        self.problem(format!("{} is unknown", quoted(text)), mend);
        None
    }

    /// The elements of a list.
    pub fn items(&self, expected: &str) -> Option<Vec<Node<'a>>> {
        let DeValue::Array(items) = self.value else { return self.wrong_type(expected) };
        let nodes = items.iter().enumerate().map(|(index, item)| Node {
            context: self.context,
            value: item.get_ref(),
            place: self.place.element(index, item.span().start),
        });
        Some(nodes.collect())
    }

    /// The elements of a list, or the value as the only one.
    pub fn one_or_more(&self) -> Vec<Node<'a>> {
        match self.value {
            DeValue::Array(_) => self.items("a list").unwrap_or_default(),
            _ => vec![self.clone()],
        }
    }

    /// Whether it is a table, so that a value with two forms can be read as the right one.
    pub fn is_table(&self) -> bool {
        self.value.is_table()
    }

    /// A table of a known kind.
    pub fn table(&self, schema: &'static Schema) -> Option<Table<'a>> {
        match self.value {
            DeValue::Table(entries) => Some(Table::open(self.context, entries, self.place.clone(), schema)),
            _ => self.wrong_type(&format!("a table, {}", schema.title)),
        }
    }

    /// The members of a table whose keys are names that the user chose.
    pub fn members(&self, expected: &str) -> Option<Vec<(&'a str, Node<'a>)>> {
        let DeValue::Table(entries) = self.value else { return self.wrong_type(expected) };
        let members = entries.iter().map(|(name, value)| {
            let place = self.place.member(name.get_ref(), name.span().start);
            (name.get_ref().as_ref(), Node { context: self.context, value: value.get_ref(), place })
        });
        Some(members.collect())
    }

    /// Where a value stands in a delivery.
    pub fn locator(&self) -> Option<Locator> {
        let text = self.text("a place, such as \"/data/id\", \"header:NAME\", \"query:NAME\" or \"const:TEXT\"")?;
        if text.starts_with("./") {
            self.problem("pointers relative to an element (`each`) are not in this version", "start it with `/`");
            return None;
        }
        match Locator::parse(text) {
            Ok(locator) => Some(locator),
            Err(e) => {
                let mend = match text.starts_with(|c: char| c.is_ascii_alphabetic()) && !text.contains(':') {
                    true => format!("did you mean {}?", quoted(&format!("/{}", text.replace('.', "/")))),
                    false => "write it in one of these forms".to_owned(),
                };
                self.problem(e.to_string(), mend);
                None
            }
        }
    }
}

/// A text in a message: quoted, escaped and bounded. Never for what may be a secret.
pub(crate) fn quoted(text: &str) -> String {
    format!("{:?}", text.chars().take(80).collect::<String>())
}
