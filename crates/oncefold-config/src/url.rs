//! Store and queue URLs: parsed, and shown without their credentials.

use percent_encoding::percent_decode_str;
use std::fmt;
use std::path::PathBuf;

/// Where events and entities are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreUrl {
    /// A SQLite file; a relative path is relative to the working directory.
    Sqlite(PathBuf),
    /// A PostgreSQL database.
    Postgres(ConnectionUrl),
}

/// What carries events from intake to workers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QueueUrl {
    /// The SQLite store.
    Embedded,
    /// A RabbitMQ broker.
    Amqp(ConnectionUrl),
}

/// A URL that may hold a password. `Debug` and `Display` show scheme, host and path only.
#[derive(Clone, PartialEq, Eq)]
pub struct ConnectionUrl(Box<str>);

/// Why a text is no such URL, and what to do. Holds nothing of the text.
pub(crate) type UrlProblem = (&'static str, &'static str);

const STORE_FORMS: &str =
    "write \"sqlite://oncefold.db\", \"sqlite:///absolute/path.db\" or \"postgres://user:password@host/database\"";
const QUEUE_FORMS: &str = "write \"embedded\", or \"amqp://user:password@host/vhost\" (amqps:// for TLS)";
const ENCODE: &str =
    "percent-encode special characters in user, password, database and vhost (`@` is %40, `/` is %2F, `:` is %3A)";

impl ConnectionUrl {
    /// The URL with its password, for connecting; never to be shown or logged.
    pub fn expose_url(&self) -> &str {
        &self.0
    }

    fn parse(text: &str, host_is_needed: bool) -> Result<Self, UrlProblem> {
        if text.contains(|c: char| c.is_whitespace() || c.is_control()) {
            return Err(("the URL holds white space or control characters", ENCODE));
        }
        let rest = text.split_once("://").map_or("", |(_, rest)| rest);
        let (authority, after) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
        if authority.matches('@').count() > 1 || (!authority.contains('@') && after.contains('@')) {
            return Err(("the URL's user or password has a bare `@`, `/`, `?` or `#` in it", ENCODE));
        }
        let credentials = authority.rsplit_once('@').map_or("", |(credentials, _)| credentials);
        if credentials.matches(':').count() > 1 {
            return Err(("the URL's password has a bare `:` in it", ENCODE));
        }
        if !is_percent_encoded(rest) {
            return Err(("the URL has a `%` that no two hex digits follow", ENCODE));
        }
        let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
        let (host, port) = match host.rsplit_once(':') {
            Some((host, port)) if !port.contains(']') => (host, Some(port)),
            _ => (host, None),
        };
        if port.is_some_and(|port| port.parse::<u16>().is_err()) {
            return Err((
                "the URL's port is no number from 0 to 65535",
                "write `host:5432`; an IPv6 address goes in [ ]",
            ));
        }
        if host.is_empty() && host_is_needed {
            return Err(("the URL names no host", "put one after `://` or after the `@`"));
        }
        Ok(Self(text.into()))
    }
}

/// Whether every `%` starts an escape (RFC 3986, section 2.1).
fn is_percent_encoded(text: &str) -> bool {
    let hex = |rest: &str| rest.len() >= 2 && rest.as_bytes()[..2].iter().all(u8::is_ascii_hexdigit);
    text.split('%').skip(1).all(hex)
}

impl fmt::Display for ConnectionUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (scheme, rest) = self.0.split_once("://").unwrap_or(("", &self.0));
        let rest = rest.split(['?', '#']).next().unwrap_or_default();
        let (user, place) = rest.rsplit_once('@').map_or(("", rest), |(_, place)| ("…@", place));
        write!(f, "{scheme}://{user}{place}")
    }
}

impl fmt::Debug for ConnectionUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ConnectionUrl({self})")
    }
}

impl fmt::Display for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sqlite(path) => write!(f, "sqlite://{}", path.display()),
            Self::Postgres(url) => url.fmt(f),
        }
    }
}

impl fmt::Display for QueueUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Embedded => f.write_str("embedded"),
            Self::Amqp(url) => url.fmt(f),
        }
    }
}

/// `sqlite://path`, `postgres://…`, `postgresql://…`.
pub(crate) fn parse_store(text: &str) -> Result<StoreUrl, UrlProblem> {
    if let Some(path) = text.strip_prefix("sqlite://") {
        return sqlite_path(path).map(StoreUrl::Sqlite);
    }
    match text.split_once("://") {
        // libpq takes the host from the query too: a socket's directory is written there.
        Some(("postgres" | "postgresql", rest)) => {
            ConnectionUrl::parse(text, !rest.contains("host=")).map(StoreUrl::Postgres)
        }
        Some(_) => Err(("the store URL has an unknown scheme", STORE_FORMS)),
        None => Err(("this is no store URL", STORE_FORMS)),
    }
}

fn sqlite_path(path: &str) -> Result<PathBuf, UrlProblem> {
    if path.contains(['?', '#']) {
        return Err(("a sqlite URL takes no options", "remove what follows `?` or `#` (or write it %3F, %23)"));
    }
    if !is_percent_encoded(path) {
        return Err(("the path has a `%` that no two hex digits follow", "write a `%` of the path as %25"));
    }
    let path = percent_decode_str(path).decode_utf8().map_err(|_| ("the path is not UTF-8", STORE_FORMS))?;
    if path.is_empty() || path.ends_with('/') || path.contains('\0') {
        return Err(("the sqlite URL names no file", STORE_FORMS));
    }
    if path.as_ref() == ":memory:" {
        return Err(("events kept in memory are lost with the process", STORE_FORMS));
    }
    Ok(PathBuf::from(path.into_owned()))
}

/// `embedded`, `amqp://…`, `amqps://…`.
pub(crate) fn parse_queue(text: &str) -> Result<QueueUrl, UrlProblem> {
    match text.split_once("://") {
        None if text == "embedded" => Ok(QueueUrl::Embedded),
        Some(("amqp" | "amqps", _)) => ConnectionUrl::parse(text, true).map(QueueUrl::Amqp),
        Some(_) => Err(("the queue URL has an unknown scheme", QUEUE_FORMS)),
        None => Err(("this is no queue URL", QUEUE_FORMS)),
    }
}
