use super::*;
use std::io;
use std::sync::{Arc, Mutex};
use tracing::{debug, error, info, warn};
use tracing_subscriber::fmt::{MakeWriter, SubscriberBuilder};
use tracing_subscriber::util::SubscriberInitExt as _;

#[derive(Clone)]
struct Noon;

impl FormatTime for Noon {
    fn format_time(&self, writer: &mut Writer<'_>) -> fmt::Result {
        writer.write_str("2026-11-30T12:00:00.000000Z")
    }
}

#[derive(Clone, Default)]
struct Held(Arc<Mutex<Vec<u8>>>);

impl io::Write for Held {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Held {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

fn base() -> (
    Held,
    SubscriberBuilder<
        tracing_subscriber::fmt::format::DefaultFields,
        Format,
        tracing_subscriber::filter::LevelFilter,
        Held,
    >,
) {
    let held = Held::default();
    let builder = tracing_subscriber::fmt()
        .with_max_level(tracing_subscriber::filter::LevelFilter::TRACE)
        .with_writer(held.clone());
    (held, builder)
}

fn text(held: &Held) -> String {
    String::from_utf8(held.0.lock().unwrap().clone()).unwrap()
}

/// Every kind of field, and every kind of character (RFC 8259, section 7).
fn log_much() {
    let hard: String = ('\0'..='\u{80}').chain(['"', '\\', '\u{2028}', 'é', '😀']).collect();
    info!(target: "oncefold::ingest", source = "shop", event = %"id", hard, "delivery accepted");
    info!(target: "oncefold::ingest", outcome = ?Some("a\"b\n"), detail = None::<&str>, there = Some(hard.as_str()), "x");
    warn!(target: "oncefold", variant = true, count = u64::MAX, least = i64::MIN, wide = u128::MAX, thin = i128::MIN);
    error!(target: "oncefold_worker::report", half = 0.5, whole = 1.0, vast = 1e300, none = f64::NAN, "{hard}");
    let error: Box<dyn std::error::Error> = "a \"cause\"".into();
    debug!(target: "oncefold_x", error, "dotted.name" = 1, r#type = "raw", "quoted\"name" = ?[1, 2], "{}", 1);
    let span = tracing::info_span!(target: "oncefold", "around", field = 1);
    span.in_scope(|| info!(target: "oncefold", "within"));
    info!(target: "hyper", of = "others", "else\u{7}");
}

#[test]
fn lines_are_what_the_subscriber_writes_itself() {
    let (ours, builder) = base();
    let guard = builder.event_format(JsonLines::by(Noon)).set_default();
    log_much();
    drop(guard);
    let (theirs, builder) = base();
    let json = builder.json().flatten_event(true).with_current_span(false).with_span_list(false).with_timer(Noon);
    let guard = json.set_default();
    log_much();
    drop(guard);
    let lines = text(&ours);
    assert_eq!(lines, text(&theirs));
    assert_eq!(lines.lines().count(), 7);
    for line in lines.lines() {
        serde_json::from_str::<serde_json::Value>(line).unwrap();
    }
}

#[test]
fn a_line_is_one_object_with_the_fields_in_their_order() {
    let (ours, builder) = base();
    let guard = builder.event_format(JsonLines::by(Noon)).set_default();
    info!(target: "oncefold::ingest", source = "shop", trace = "0a", tries = 3, "delivery accepted");
    drop(guard);
    let expected = r#"{"timestamp":"2026-11-30T12:00:00.000000Z","level":"INFO","message":"delivery accepted","source":"shop","trace":"0a","tries":3,"target":"oncefold::ingest"}"#;
    assert_eq!(text(&ours), format!("{expected}\n"));
}
