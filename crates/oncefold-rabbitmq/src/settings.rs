//! Where the broker is, and the reading of its URL.

use lapin::uri::AMQPUri;
use oncefold_core::queue::QueueError;
use std::{fmt, time::Duration};

/// Most events of one message, where nothing else is asked for: what 64 connections of providers have under way.
pub const GROUP_EVENTS_MAX: usize = 64;
/// Seconds between heartbeats where the URL does not say. The client gives a silent connection up after twice that.
const HEARTBEAT_S: u16 = 10;
/// An AMQP short string, such as a virtual host, holds so many bytes.
const SHORT_STRING_MAX: usize = 255;

/// How to reach the broker, and how long to wait for it.
#[derive(Clone)]
pub struct RabbitSettings {
    /// `amqp://` or `amqps://`, with user, password and virtual host percent-encoded. Secret: it holds the password.
    /// Without a path the virtual host is `/`; RabbitMQ's rules for such URLs hold, also for `?heartbeat=`.
    pub url: String,
    /// How long a publish may take to be confirmed before it counts as failed.
    pub confirm_timeout: Duration,
    /// Channels that publish side by side; at least one is opened.
    pub publish_channels: usize,
    /// Most events of one message where many are under way at once; 1 to publish each alone.
    pub group_max: usize,
}

impl fmt::Debug for RabbitSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RabbitSettings")
            .field("url", &"(secret)")
            .field("confirm_timeout", &self.confirm_timeout)
            .field("publish_channels", &self.publish_channels)
            .field("group_max", &self.group_max)
            .finish()
    }
}

/// Reads the URL. No error repeats any part of it: a password with a `/` in it may be anywhere.
pub(crate) fn parse_url(url: &str) -> Result<AMQPUri, QueueError> {
    let refuse = |why: &str| {
        QueueError::Misconfigured(format!(
            "the queue's URL cannot be used: {why}. Write amqp://user:password@host:port/vhost or amqps://…, with \
             special characters in user, password and vhost percent-encoded (`/` is %2f, `@` is %40)"
        ))
    };
    if !url.starts_with("amqp://") && !url.starts_with("amqps://") {
        return Err(refuse("it does not start with amqp:// or amqps://"));
    }
    let mut uri: AMQPUri = url.parse().map_err(|_| refuse("it is malformed"))?;
    if uri.vhost.len() > SHORT_STRING_MAX {
        return Err(refuse("its virtual host is longer than 255 bytes"));
    }
    if let Some(address) = ipv6_host(url) {
        uri.authority.host = address.to_owned();
    }
    uri.query.heartbeat.get_or_insert(HEARTBEAT_S);
    Ok(uri)
}

/// The client's parser takes an IPv6 address for no host at all, and would silently connect to localhost.
fn ipv6_host(url: &str) -> Option<&str> {
    let authority = url.split_once("://")?.1.split(['/', '?', '#']).next()?;
    let host = authority.rsplit('@').next()?;
    Some(host.strip_prefix('[')?.split_once(']')?.0)
}

/// The address as logs may show it.
pub(crate) fn shown(uri: &AMQPUri) -> String {
    let vhost = if uri.vhost == "/" { "" } else { uri.vhost.as_str() };
    format!("{}://{}:{}/{vhost}", uri.scheme, uri.authority.host, uri.authority.port)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "hunter2";

    #[test]
    fn special_characters_are_decoded() {
        let uri = parse_url("amqps://us%2fer:p%40ss%3Aw%2F%C3%B6%25rd@example.test:1234/v%2fh").unwrap();
        assert_eq!(uri.authority.userinfo.username, "us/er");
        assert_eq!(uri.authority.userinfo.password, "p@ss:w/ö%rd");
        assert_eq!((uri.authority.host.as_str(), uri.authority.port), ("example.test", 1234));
        assert_eq!(uri.vhost, "v/h");
        assert_eq!(shown(&uri), "amqps://example.test:1234/v/h");
    }

    #[test]
    fn what_the_url_leaves_out() {
        let uri = parse_url("amqp://10.1.2.3").unwrap();
        assert_eq!((uri.authority.host.as_str(), uri.authority.port), ("10.1.2.3", 5672));
        assert_eq!((uri.vhost.as_str(), uri.query.heartbeat), ("/", Some(HEARTBEAT_S)));
        assert_eq!(parse_url("amqps://host/?heartbeat=60").unwrap().query.heartbeat, Some(60));
        assert_eq!(parse_url("amqps://host").unwrap().authority.port, 5671);
    }

    #[test]
    fn ipv6_hosts_are_hosts() {
        let uri = parse_url("amqp://guest:p%5Bw@[2001:db8::1]:99/%2f").unwrap();
        assert_eq!((uri.authority.host.as_str(), uri.authority.port), ("2001:db8::1", 99));
    }

    #[test]
    fn bad_urls_are_refused_without_being_repeated() {
        let long_vhost = format!("amqp://u:{SECRET}@host/{}", "v".repeat(256));
        let bad = [
            "",
            "http://u:hunter2@host/",
            "amqp:hunter2",
            "amqp://u:hunter2@host:notaport/",
            "amqp://u:hunter2@host/?heartbeat=hunter2",
            "amqp://u:hunter2@host/%ff",
            long_vhost.as_str(),
        ];
        for url in bad {
            let refused = parse_url(url).expect_err(url).to_string();
            assert!(!refused.contains(SECRET) && refused.contains("amqp://user"), "{refused}");
        }
    }

    #[test]
    fn debug_shows_no_secret() {
        let settings = RabbitSettings {
            url: format!("amqp://u:{SECRET}@host"),
            confirm_timeout: Duration::from_secs(2),
            publish_channels: 2,
            group_max: 64,
        };
        assert!(!format!("{settings:?}").contains(SECRET));
    }
}
