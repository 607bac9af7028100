//! Standard output and standard error: data to the one, everything else to the other.

use serde_json::Value;
use std::fmt::Display;
use std::io::Write as _;

/// Writes a line of data.
///
/// # Errors
/// When standard output is closed.
pub fn line(text: &dyn Display) -> std::io::Result<()> {
    writeln!(std::io::stdout().lock(), "{text}")
}

/// Writes a JSON document, indented.
///
/// # Errors
/// When standard output is closed.
pub fn json(value: &Value) -> std::io::Result<()> {
    line(&format_args!("{value:#}"))
}

/// Writes exact bytes.
///
/// # Errors
/// When standard output is closed.
pub fn bytes(bytes: &[u8]) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(bytes)?;
    out.flush()
}

/// Says something that is not data.
pub fn say(text: &dyn Display) {
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

/// Says why the command failed.
pub fn complain(text: &dyn Display) {
    say(&format_args!("oncefold: {text}"));
}

/// A table with left-aligned columns, as wide as their widest cell.
pub fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    let mut widths: Vec<usize> = head.iter().map(|h| h.chars().count()).collect();
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let render = |cells: Vec<&str>| {
        let padded = cells.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        padded.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    let mut lines = vec![render(head.to_vec())];
    lines.extend(rows.iter().map(|row| render(row.iter().map(String::as_str).collect())));
    lines.join("\n")
}
