//! Values by reference: `env:NAME` and `file:/path`. What they resolve to is never shown.

use crate::reader::{Context, Place};
use std::fs::File;
use std::io::Read as _;
use std::path::PathBuf;

/// Most bytes of a file that holds one secret or URL.
const FILE_BYTES_MAX: u64 = 64 * 1024;

/// A value that was written out or found where a reference pointed.
pub(crate) struct Resolved {
    /// The value; surrounding white space of a file is removed.
    pub text: String,
    /// Whether it was written out in the config.
    pub literal: bool,
}

/// The value that `text` is or refers to; nothing, and a problem that names the reference, where it leads nowhere.
pub(crate) fn resolve(context: &Context<'_>, place: &Place, text: &str) -> Option<Resolved> {
    let text = text.trim();
    let found = if let Some(name) = text.strip_prefix("env:") {
        variable(context, name.trim())
    } else if let Some(path) = text.strip_prefix("file:") {
        file(path.trim())
    } else {
        return Some(Resolved { text: text.to_owned(), literal: true });
    };
    match found {
        Ok(value) if value.trim().is_empty() => {
            context.problem(place, format!("{text} is empty"), "set it to the value");
            None
        }
        Ok(value) => Some(Resolved { text: value.trim().to_owned(), literal: false }),
        Err((message, mend)) => {
            context.problem(place, message, mend);
            None
        }
    }
}

/// The file that `text` refers to, if it does.
pub(crate) fn file_of(text: &str) -> Option<PathBuf> {
    text.trim().strip_prefix("file:").map(|path| PathBuf::from(path.trim()))
}

fn variable(context: &Context<'_>, name: &str) -> Result<String, (String, String)> {
    if name.is_empty() {
        return Err(("`env:` names no variable".to_owned(), "write `env:NAME`".to_owned()));
    }
    context
        .variable(name)
        .ok_or_else(|| (format!("environment variable {name} is not set"), format!("set {name} for this process")))
}

fn file(path: &str) -> Result<String, (String, String)> {
    let unreadable = |e: std::io::Error| {
        (format!("file {path} cannot be read: {e}"), "check the path and that this user may read it".to_owned())
    };
    let mut text = String::new();
    let file = File::open(path).map_err(unreadable)?;
    let length = file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text).map_err(unreadable)?;
    if length as u64 > FILE_BYTES_MAX {
        return Err((
            format!("file {path} is larger than 64KiB"),
            "point to a file that holds the value alone".to_owned(),
        ));
    }
    Ok(text)
}
