//! Log lines as JSON, byte for byte as `tracing_subscriber` writes them with `flatten_event` and without spans, but
//! straight into the line: every delivery and every verdict has one.

use std::fmt::{self, Debug, Write as _};
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::format::{Format, Json, Writer};
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

/// How the targets of our own events begin.
const OURS: &str = "oncefold";

/// Writes a line an event.
pub(crate) struct JsonLines<T = SystemTime> {
    timer: T,
    /// For what others log: records of the `log` crate come as events under a stand-in.
    others: Format<Json, T>,
}

impl<T: Clone> JsonLines<T> {
    /// Lines with this clock's times.
    pub(crate) fn by(timer: T) -> Self {
        let json = Format::default().json().flatten_event(true).with_current_span(false).with_span_list(false);
        Self { others: json.with_timer(timer.clone()), timer }
    }
}

impl<S, N, T> FormatEvent<S, N> for JsonLines<T>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
    T: FormatTime,
{
    fn format_event(&self, ctx: &FmtContext<'_, S, N>, mut writer: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let metadata = event.metadata();
        if !metadata.target().starts_with(OURS) {
            return self.others.format_event(ctx, writer, event);
        }
        writer.write_str("{\"timestamp\":\"")?;
        self.timer.format_time(&mut writer)?;
        writer.write_str("\",\"level\":\"")?;
        writer.write_str(metadata.level().as_str())?;
        writer.write_char('"')?;
        let mut fields = Fields { writer: writer.by_ref(), written: Ok(()) };
        event.record(&mut fields);
        fields.written?;
        writer.write_str(",\"target\":\"")?;
        Escaped(&mut writer).write_str(metadata.target())?;
        writer.write_str("\"}\n")
    }
}

/// Writes fields, until one cannot be written.
struct Fields<'a> {
    writer: Writer<'a>,
    written: fmt::Result,
}

impl Fields<'_> {
    fn member(&mut self, field: &Field, value: impl FnOnce(&mut Writer<'_>) -> fmt::Result) {
        let written = self.written.and_then(|()| {
            self.writer.write_str(",\"")?;
            Escaped(&mut self.writer).write_str(field.name())?;
            self.writer.write_str("\":")?;
            value(&mut self.writer)
        });
        self.written = written;
    }

    fn text(&mut self, field: &Field, text: impl FnOnce(&mut Escaped<'_, '_>) -> fmt::Result) {
        self.member(field, |writer| {
            writer.write_char('"')?;
            text(&mut Escaped(writer))?;
            writer.write_char('"')
        });
    }
}

impl Visit for Fields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.text(field, |text| write!(text, "{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.text(field, |text| text.write_str(value));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.member(field, |writer| write!(writer, "{value}"));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.member(field, |writer| write!(writer, "{value}"));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.member(field, |writer| write!(writer, "{value}"));
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.member(field, |writer| writer.write_str(&serde_json::json!(value).to_string()));
    }
}

/// The inside of a JSON string (RFC 8259, section 7): nothing is escaped that need not be.
struct Escaped<'a, 'w>(&'a mut Writer<'w>);

impl fmt::Write for Escaped<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let mut written = 0;
        for (at, byte) in text.bytes().enumerate() {
            if byte >= b' ' && byte != b'"' && byte != b'\\' {
                continue;
            }
            self.0.write_str(&text[written..at])?;
            written = at + 1;
            match byte {
                b'\n' => self.0.write_str("\\n")?,
                b'\r' => self.0.write_str("\\r")?,
                b'\t' => self.0.write_str("\\t")?,
                0x08 => self.0.write_str("\\b")?,
                0x0C => self.0.write_str("\\f")?,
                b'"' | b'\\' => write!(self.0, "\\{}", char::from(byte))?,
                _ => write!(self.0, "\\u{byte:04x}")?,
            }
        }
        self.0.write_str(&text[written..])
    }
}

#[cfg(test)]
#[path = "lines_tests.rs"]
mod tests;
