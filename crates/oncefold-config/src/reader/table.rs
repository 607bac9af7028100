//! A table whose keys are known.

use crate::reader::{Context, Node, Place, Schema, Setting};
use std::borrow::Cow;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A table of a known kind. Opening it records every key that does not belong there.
#[derive(Clone)]
pub(crate) struct Table<'a> {
    pub context: &'a Context<'a>,
    /// None where the config does not have it: then every key is absent.
    entries: Option<&'a DeTable<'a>>,
    pub place: Place,
    schema: &'static Schema,
}

impl<'a> Table<'a> {
    /// Opens a table, and names every key of it that `schema` does not know.
    pub fn open(context: &'a Context<'a>, entries: &'a DeTable<'a>, place: Place, schema: &'static Schema) -> Self {
        for key in entries.keys() {
            if !schema.keys.contains(&key.get_ref().as_ref()) {
                let (message, mend) = schema.about_unknown(key.get_ref());
                context.problem(&place.member(key.get_ref(), key.span().start), message, mend);
            }
        }
        Self { context, entries: Some(entries), place, schema }
    }

    /// Opens a table whose unknown keys are named elsewhere, or do not matter.
    pub fn known(context: &'a Context<'a>, entries: &'a DeTable<'a>, place: Place, schema: &'static Schema) -> Self {
        Self { context, entries: Some(entries), place, schema }
    }

    /// A table that the config does not have.
    fn absent(context: &'a Context<'a>, place: Place, schema: &'static Schema) -> Self {
        Self { context, entries: None, place, schema }
    }

    /// What stands under a key of the schema.
    pub fn get(&self, key: &'static str) -> Option<Node<'a>> {
        debug_assert!(self.schema.keys.contains(&key), "{key} is missing from the schema of {}", self.schema.title);
        let (name, value) = self.entries?.get_key_value(key)?;
        Some(self.node(name, value))
    }

    fn node(&self, name: &Spanned<Cow<'a, str>>, value: &'a Spanned<DeValue<'a>>) -> Node<'a> {
        let offset = name.span().start;
        Node { context: self.context, value: value.get_ref(), place: self.place.member(name.get_ref(), offset) }
    }

    /// The table under a key; an absent one where it is not there or no table.
    pub fn section(&self, key: &'static str, schema: &'static Schema) -> Table<'a> {
        let found = self.get(key).and_then(|node| node.table(schema));
        found.unwrap_or_else(|| {
            let place = self.place.member(key, self.place.offset.unwrap_or(0));
            Table::absent(self.context, place, schema)
        })
    }

    /// The text under a key, or that of the environment variable which overrides it.
    pub fn setting(&self, key: &'static str, variable: &str) -> Option<Setting<'a>> {
        let Some(text) = self.context.variable(variable) else {
            let node = self.get(key)?;
            return Some(Setting { text: Cow::Borrowed(node.text("a text")?), place: node.place });
        };
        let place = Place::variable(variable);
        if text.trim().is_empty() {
            self.context.problem(&place, "is empty", format!("unset it, or set it to what `{}` takes", key));
            return None;
        }
        Some(Setting { text: Cow::Owned(text), place })
    }

    /// Names a key that has to be there and is not.
    pub fn missing(&self, key: &'static str, mend: &str) {
        let place = self.place.member(key, self.place.offset.unwrap_or(0));
        self.context.problem(&place, format!("`{key}` is missing"), mend);
    }
}
