//! Log set-up: to stderr, as JSON lines unless it is a terminal; written by a thread of its own, so that a slow
//! stderr never holds up a request.

use std::io::IsTerminal as _;
use tracing_appender::non_blocking::{NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::EnvFilter;

/// Lines that may wait for stderr; further ones are dropped and the drop is bounded memory, not lost events.
const WAITING_LINES_MAX: usize = 64_000;
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
    let terminal = std::io::stderr().is_terminal();
    let (writer, guard) = NonBlockingBuilder::default()
        .buffered_lines_limit(WAITING_LINES_MAX)
        .lossy(true)
        .thread_name("log")
        .finish(std::io::stderr());
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(writer).with_ansi(terminal);
    let started = if terminal {
        builder.compact().try_init()
    } else {
        builder.json().flatten_event(true).with_current_span(false).with_span_list(false).try_init()
    };
    started.map_err(|e| e.to_string())?;
    Ok(LogGuard(guard))
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
    use super::parse_filter;

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
