//! Log set-up: to stderr, as JSON lines unless it is a terminal; written by a thread of its own, so that a slow
//! stderr never holds up a request.

use crate::lines::JsonLines;
use std::io::{self, BufWriter, IsTerminal as _, Write};
use std::thread::sleep;
use std::time::Duration;
use tracing_appender::non_blocking::{NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::time::SystemTime;

/// Lines that may wait for stderr; further ones are dropped and the drop is bounded memory, not lost events.
const WAITING_LINES_MAX: usize = 64_000;
/// How long the log thread lets lines gather after it wrote, so that it is not woken for each.
const GATHER: Duration = Duration::from_millis(1);
/// Lines that gathered are written this many bytes at a time.
const GATHERED_BYTES_MAX: usize = 32 * 1024;
const DEFAULT_FILTER: &str = "info,sqlx=warn,hyper=warn";

/// The AMQP client logs whole frames at `trace` and returned messages with their body at `warn`: never, whatever the
/// filter says. What matters of its connections is logged by `oncefold-rabbitmq`.
const BODIES_ARE_NOT_LOGGED: &str = "lapin=off";

/// Keeps the log thread alive; dropped at the end of `main`, it writes out what waits.
#[must_use = "lines that wait are lost when this is dropped"]
pub struct LogGuard(#[allow(dead_code, reason = "held for its Drop")] WorkerGuard);

/// Starts logging. `filter` is the value of `ONCEFOLD_LOG`: a level, or directives such as `info,oncefold=debug`.
///
/// # Errors
/// When the filter cannot be read, or logging was started before; the text says which.
pub fn start(filter: Option<&str>) -> Result<LogGuard, String> {
    let filter = parse_filter(filter.unwrap_or(DEFAULT_FILTER))?;
    let terminal = io::stderr().is_terminal();
    let (writer, guard) = NonBlockingBuilder::default()
        .buffered_lines_limit(WAITING_LINES_MAX)
        .lossy(true)
        .thread_name("log")
        .finish(Gathered(BufWriter::with_capacity(GATHERED_BYTES_MAX, io::stderr())));
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(writer).with_ansi(terminal);
    let started = if terminal {
        builder.compact().try_init()
    } else {
        builder.event_format(JsonLines::by(SystemTime)).try_init()
    };
    started.map_err(|e| e.to_string())?;
    Ok(LogGuard(guard))
}

/// Writes lines that gathered in one piece. The log thread flushes it whenever no line is left; a line that comes after
/// a quiet while is written at once.
struct Gathered<W: Write>(BufWriter<W>);

impl<W: Write> Write for Gathered<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        let flushed = self.0.flush();
        sleep(GATHER);
        flushed
    }
}

fn parse_filter(text: &str) -> Result<EnvFilter, String> {
    let refused = |why: &str| {
        format!("ONCEFOLD_LOG: {why}; use a level (error, warn, info, debug) or directives like info,oncefold=debug")
    };
    if text.contains("lapin") {
        return Err(refused("`lapin` writes bodies and cannot be logged"));
    }
    let filter = EnvFilter::try_new(text).map_err(|e| refused(&e.to_string()))?;
    let silent = BODIES_ARE_NOT_LOGGED.parse().map_err(|_| refused("no filter"))?;
    Ok(filter.add_directive(silent))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    /// What was written, piece by piece.
    #[derive(Clone, Default)]
    struct Pieces(Arc<Mutex<Vec<String>>>);

    impl Write for Pieces {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().push(String::from_utf8(bytes.to_vec()).unwrap());
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn lines_that_gathered_are_written_in_one_piece_once_none_is_left() {
        let pieces = Pieces::default();
        let mut log = Gathered(BufWriter::with_capacity(GATHERED_BYTES_MAX, pieces.clone()));
        log.write_all(b"one\n").unwrap();
        log.write_all(b"two\n").unwrap();
        assert!(pieces.0.lock().unwrap().is_empty());
        log.flush().unwrap();
        assert_eq!(*pieces.0.lock().unwrap(), ["one\ntwo\n"]);
    }

    #[test]
    fn the_amqp_client_is_silent_whatever_the_filter_says() {
        for text in ["trace", "info,oncefold=debug"] {
            assert!(parse_filter(text).unwrap().to_string().contains("lapin=off"), "{text}");
        }
        for text in ["lapin=trace", "info,lapin::channels=debug"] {
            assert!(parse_filter(text).unwrap_err().contains("bodies"), "{text}");
        }
        assert!(parse_filter("info,=").is_err());
    }
}
