//! `verify`: explains the signature verdict on a captured request. Needs no store and no queue.

use crate::cli::Verify;
use crate::clock::SystemClock;
use crate::failure::{Ended, Failure};
use crate::{demo, output, settings};
use oncefold_config::{Config, SourceConfig, load_source};
use oncefold_core::{Clock as _, Timestamp};
use oncefold_signature::{Request, UnixTime, Verdict};
use percent_encoding::percent_decode_str;
use serde_json::json;
use std::path::Path;

pub fn run(args: &Verify, config: Option<&Path>, as_json: bool) -> Result<Ended, Failure> {
    let source = source(&args.source, config)?;
    let head = read(&args.headers)?;
    let headers = parse_headers(&head).map_err(|line| {
        let file = args.headers.display();
        Failure::config(format!("{file}:{line}: a line of the headers file is `Name: value`"))
    })?;
    let body = read(&args.body)?;
    let now = match &args.at {
        None => SystemClock.now(),
        Some(at) => Timestamp::parse(at)
            .ok_or_else(|| Failure::config(format!("--at `{at}` is neither RFC 3339 nor Unix seconds")))?,
    };
    let url = args.url.as_deref().or(source.public_url.as_deref());
    let (path, query) = url.map_or(("", ""), split_url);
    let token = path_token(path, &args.source, &source);
    let method = args.method.to_ascii_uppercase();
    let request = Request { method: &method, url, query, path_token: token.as_deref(), headers: &headers, body: &body };
    let now = UnixTime::from_micros(now.as_micros());
    let verdict = source.verifier.verify(&request, now);
    show(&verdict, &source, &request, now, as_json)
}

fn source(name: &str, config: Option<&Path>) -> Result<SourceConfig, Failure> {
    if let Some(file) = settings::file(config) {
        return Ok(load_source(&file, name, &settings::env).map_err(Failure::config)?.source);
    }
    let config = Config::parse("(built-in demo config)", demo::CONFIG, &settings::env).map_err(Failure::config)?.config;
    let found = config.source(name).cloned();
    found.ok_or_else(|| Failure::config(format!("there is no source `{name}`: name a config file with --config")))
}

fn read(file: &Path) -> Result<Vec<u8>, Failure> {
    std::fs::read(file).map_err(|e| Failure::config(format!("{}: {e}", file.display())))
}

/// `Name: value` lines; the value is everything after the first `: `. The number of the line that is none.
fn parse_headers(head: &[u8]) -> Result<Vec<(&str, &[u8])>, usize> {
    let lines = head.split(|b| *b == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    let lines = lines.enumerate().filter(|(_, line)| !line.is_empty());
    lines.map(|(at, line)| parse_header(line).ok_or(at + 1)).collect()
}

fn parse_header(line: &[u8]) -> Option<(&str, &[u8])> {
    let (name, value) = match line.windows(2).position(|pair| pair == b": ") {
        Some(at) => (&line[..at], &line[at + 2..]),
        None => (line.strip_suffix(b":")?, &b""[..]),
    };
    let name = std::str::from_utf8(name).ok()?;
    (!name.is_empty() && name.bytes().all(|b| b.is_ascii_graphic())).then_some((name, value))
}

/// Path and query of a URL.
fn split_url(url: &str) -> (&str, &str) {
    let url = url.split('#').next().unwrap_or_default();
    let (before, query) = url.split_once('?').unwrap_or((url, ""));
    let rest = before.split_once("://").map_or(before, |(_, rest)| rest);
    (rest.find('/').map_or("", |at| &rest[at..]), query)
}

/// The decoded `{token}` of `/in/{source}/{token}`, where the source has one there.
fn path_token(path: &str, name: &str, source: &SourceConfig) -> Option<String> {
    let token = path.rsplit_once(&format!("/in/{name}/"))?.1;
    let token = percent_decode_str(token).decode_utf8().ok()?;
    source.path_token.then(|| token.into_owned())
}

fn show(
    verdict: &Verdict,
    source: &SourceConfig,
    request: &Request<'_>,
    now: UnixTime,
    as_json: bool,
) -> Result<Ended, Failure> {
    let (text, reason, detail, secret_index) = match verdict {
        Verdict::Valid(verified) => ("valid", None, None, verified.secret_index),
        Verdict::Invalid(rejection) => {
            let diagnosis = source.verifier.diagnose(request, now, rejection);
            ("invalid", Some(rejection.reason.as_str()), Some(diagnosis), None)
        }
    };
    if as_json {
        output::json(&json!({"verdict": text, "reason": reason, "detail": detail, "secret_index": secret_index}))?;
    } else {
        output::line(&text)?;
        if let Some(index) = secret_index {
            output::line(&format_args!("secret {index} of the source matched (counted from 0)"))?;
        }
        if let (Some(reason), Some(detail)) = (reason, detail) {
            output::line(&format_args!("{reason}\n{detail}"))?;
        }
    }
    Ok(if verdict.is_valid() { Ended::Done } else { Ended::Found })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_bytes_and_values_untrimmed() {
        let head = b"A: 1\r\nb:  two \nA: \xFF: x\nEmpty:\n\n";
        let expected: Vec<(&str, &[u8])> = vec![("A", b"1"), ("b", b" two "), ("A", b"\xFF: x"), ("Empty", b"")];
        assert_eq!(parse_headers(head), Ok(expected));
        assert_eq!(parse_headers(b"A: 1\nno header\n"), Err(2));
        assert_eq!(parse_headers(b": x\n"), Err(1));
    }

    #[test]
    fn urls_are_split_as_they_are() {
        assert_eq!(split_url("https://h.example/in/a/t%20k?x=1&y#z"), ("/in/a/t%20k", "x=1&y"));
        assert_eq!(split_url("https://h.example"), ("", ""));
        assert_eq!(split_url("/in/a"), ("/in/a", ""));
    }
}
