//! One reading of one file: its text, its environment, and what was found wrong so far.

use crate::problem::{Problem, Problems};
use std::borrow::Cow;
use std::cell::RefCell;

/// What problems in variables name in place of a file.
const ENVIRONMENT: &str = "environment";

/// Where something stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// The key, or the variable.
    pub path: String,
    /// Byte offset into the file; none in the environment.
    pub offset: Option<usize>,
}

impl Place {
    /// In the environment variable of this name.
    pub fn variable(name: &str) -> Self {
        Self { path: name.to_owned(), offset: None }
    }

    /// The same line, a key further in.
    pub fn member(&self, key: &str, offset: usize) -> Self {
        let bare = !key.is_empty() && key.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
        let key = if bare { key.to_owned() } else { format!("{:?}", key.chars().take(80).collect::<String>()) };
        let path = if self.path.is_empty() { key } else { format!("{}.{key}", self.path) };
        Self { path, offset: Some(offset) }
    }

    /// The element of a list.
    pub fn element(&self, index: usize, offset: usize) -> Self {
        Self { path: format!("{}[{index}]", self.path), offset: Some(offset) }
    }
}

/// A text with its place: from the file or from the variable that overrides it.
pub(crate) struct Setting<'a> {
    pub text: Cow<'a, str>,
    pub place: Place,
}

/// One reading of one file.
pub(crate) struct Context<'a> {
    file: &'a str,
    text: &'a str,
    env: &'a dyn Fn(&str) -> Option<String>,
    problems: RefCell<Vec<(usize, Problem)>>,
    warnings: RefCell<Vec<(usize, Problem)>>,
    /// Whether a source has to state the URL that its signatures cover.
    pub needs_urls: bool,
}

impl<'a> Context<'a> {
    /// A reading of `text`, which stands in `file`.
    pub fn new(file: &'a str, text: &'a str, env: &'a dyn Fn(&str) -> Option<String>) -> Self {
        Self { file, text, env, problems: RefCell::default(), warnings: RefCell::default(), needs_urls: true }
    }

    /// A reading of one source alone, for requests that bring the URL their signature covers.
    pub fn of_one_source(file: &'a str, text: &'a str, env: &'a dyn Fn(&str) -> Option<String>) -> Self {
        Self { needs_urls: false, ..Self::new(file, text, env) }
    }

    /// The value of an environment variable.
    pub fn variable(&self, name: &str) -> Option<String> {
        (self.env)(name)
    }

    /// Records what has to be mended.
    pub fn problem(&self, place: &Place, message: impl Into<String>, mend: impl Into<String>) {
        self.problems.borrow_mut().push(self.located(place, message.into(), mend.into()));
    }

    /// Records what is unwise.
    pub fn warn(&self, place: &Place, message: impl Into<String>, mend: impl Into<String>) {
        self.warnings.borrow_mut().push(self.located(place, message.into(), mend.into()));
    }

    /// Records a text that is not TOML.
    pub fn syntax(&self, error: &toml::de::Error) {
        let offset = self.text.floor_char_boundary(error.span().map_or(self.text.len(), |span| span.start));
        let place = Place { path: String::new(), offset: Some(offset) };
        let (key, mut problem) = self.located(&place, error.message().to_owned(), "mend the TOML there".to_owned());
        let line_start = self.text[..offset].rfind('\n').map_or(0, |at| at + 1);
        problem.column = Some(self.text[line_start..offset].chars().count() + 1);
        self.problems.borrow_mut().push((key, problem));
    }

    /// How many problems there are so far.
    pub fn problem_count(&self) -> usize {
        self.problems.borrow().len()
    }

    /// The warnings, or what keeps the config from being used; each in the order of the file.
    pub fn finish(self) -> Result<Vec<Problem>, Problems> {
        let (problems, warnings) = (in_order(self.problems), in_order(self.warnings));
        if problems.is_empty() { Ok(warnings) } else { Err(Problems { problems, warnings }) }
    }

    fn located(&self, place: &Place, message: String, mend: String) -> (usize, Problem) {
        let line = place.offset.map(|at| 1 + self.text.bytes().take(at).filter(|b| *b == b'\n').count());
        let file = if place.offset.is_some() { self.file } else { ENVIRONMENT };
        let problem = Problem { file: file.to_owned(), line, column: None, path: place.path.clone(), message, mend };
        (place.offset.unwrap_or(0), problem)
    }
}

fn in_order(found: RefCell<Vec<(usize, Problem)>>) -> Vec<Problem> {
    let mut found = found.into_inner();
    found.sort_by_key(|(offset, _)| *offset);
    found.dedup();
    found.into_iter().map(|(_, problem)| problem).collect()
}
