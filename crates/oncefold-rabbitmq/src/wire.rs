//! The AMQP message: how a [`Message`] travels, and how one is read.
//!
//! | where | what |
//! |---|---|
//! | `message_id`, `type`, `timestamp`, `content_type` | for people and tools that look at the queue; the id and the type are read back |
//! | header `frame` | how the body is framed: `raw`; `facts` where the facts stand before it; `group` for several events |
//! | headers `source`, `event_id`, `received_at_us`, `digest`, `generation`, `attempts`, `facts` | the message's fields |
//! | body | the exact bytes |
//!
//! A group (see [`group`]) has the headers `frame`, `source` and `events`, their number; its `message_id` is the first
//! one's. What `death` says replaces the broker's word on a letter of one of its events, which is a message of its own.
//! A `frame` that is not known here was written by a newer version.
//!
//! Only what is known to be short becomes an AMQP short string: the client panics on one above 255 bytes.

use crate::group;
use bytes::Bytes;
use lapin::BasicProperties;
use lapin::message::Delivery;
use lapin::types::{AMQPValue, FieldTable, ShortString};
use oncefold_core::queue::{Death, PublishError, QueueName, Unreadable};
use oncefold_core::{Digest, EventUuid, FactsJson, Message, SourceName, Timestamp};
use serde::Deserialize;
use std::{borrow::Cow, sync::Arc};

/// RabbitMQ 4 takes messages of so many bytes where nothing else is configured, and closes the channel on a larger one,
/// which would fail every publish beside it.
pub(crate) const BODY_BYTES_MAX: usize = 16 << 20;
/// What the fixed parts of the header frame take at most, with a good margin.
const HEADER_OVERHEAD: usize = 2048;
const PERSISTENT: u8 = 2;

const RAW: &str = "raw";
const FACTS_FIRST: &str = "facts";
const GROUP: &str = "group";
const REJECTED: &str = "rejected";

/// A message ready to be published.
pub(crate) struct Outgoing {
    pub(crate) queue: ShortString,
    pub(crate) properties: BasicProperties,
    pub(crate) body: Body,
}

/// Where the bytes lie.
pub(crate) enum Body {
    /// In the message, untouched.
    Raw(Arc<Message>),
    /// Behind the facts.
    Framed(Vec<u8>),
}

impl Body {
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Self::Raw(message) => &message.body,
            Self::Framed(bytes) => bytes,
        }
    }
}

/// The short string, or none where the text does not fit.
fn short(text: &str) -> Option<ShortString> {
    ShortString::try_new(text).ok()
}

fn text(value: &str) -> AMQPValue {
    AMQPValue::LongString(value.into())
}

/// Writes the message for a connection with this `frame_max` (bytes): all properties and headers go into one frame, and
/// a larger one would make the broker close the connection.
pub(crate) fn encode(message: Arc<Message>, frame_max: usize) -> Result<Outgoing, PublishError> {
    let event_type = message.event_type.as_deref();
    let fixed = HEADER_OVERHEAD + message.event_id.len() + event_type.map_or(0, str::len);
    if fixed > frame_max {
        return Err(PublishError::Refused(format!("its id and type do not fit into a frame of {frame_max} bytes")));
    }
    if message.body.len() + message.facts.as_str().len() > BODY_BYTES_MAX {
        return Err(PublishError::Refused(format!("it is larger than {BODY_BYTES_MAX} bytes")));
    }
    let mut headers = FieldTable::default();
    headers.insert("source".into(), text(message.source.as_str()));
    headers.insert("event_id".into(), text(&message.event_id));
    headers.insert("received_at_us".into(), AMQPValue::LongLongInt(message.received_at.as_micros()));
    headers.insert("digest".into(), text(&message.digest.to_hex()));
    headers.insert("generation".into(), AMQPValue::LongLongInt(message.generation.into()));
    headers.insert("attempts".into(), AMQPValue::LongLongInt(message.attempts.into()));

    let mut properties = properties(&message);
    if let Some(content_type) = content_type(message.facts.as_str()).as_deref().and_then(short) {
        properties = properties.with_content_type(content_type);
    }
    match event_type.map(|event_type| (event_type, short(event_type))) {
        Some((_, Some(kind))) => properties = properties.with_type(kind),
        Some((event_type, None)) => {
            headers.insert("type".into(), text(event_type));
        }
        None => {}
    }

    let facts = message.facts.as_str();
    let queue = QueueName::Work(message.source.clone()).to_string().into();
    let body = if fixed + facts.len() <= frame_max {
        headers.insert("frame".into(), text(RAW));
        headers.insert("facts".into(), text(facts));
        Body::Raw(message)
    } else {
        headers.insert("frame".into(), text(FACTS_FIRST));
        headers.insert("facts_bytes".into(), AMQPValue::LongLongInt(facts.len().try_into().unwrap_or(i64::MAX)));
        Body::Framed([facts.as_bytes(), &message.body].concat())
    };
    Ok(Outgoing { queue, properties: properties.with_headers(headers), body })
}

fn properties(message: &Message) -> BasicProperties {
    BasicProperties::default()
        .with_delivery_mode(PERSISTENT)
        .with_message_id(message.id.to_string().into())
        .with_timestamp(u64::try_from(message.received_at.as_seconds()).unwrap_or(0))
}

/// Writes the dead letter of an event whose message cannot be rejected, since other events travel in it.
pub(crate) fn encode_letter(message: Arc<Message>, frame_max: usize) -> Result<Outgoing, PublishError> {
    let Outgoing { properties, body, .. } = encode(message, frame_max)?;
    let mut headers = properties.headers().clone().unwrap_or_default();
    headers.insert("death".into(), text(REJECTED));
    let queue = QueueName::Dead.to_string().into();
    Ok(Outgoing { queue, properties: properties.with_headers(headers), body })
}

/// Writes one message for these events, all of one source. None where there are none.
pub(crate) fn encode_group<'a>(messages: impl Iterator<Item = &'a Message> + Clone) -> Option<Outgoing> {
    let first = messages.clone().next()?;
    let mut headers = FieldTable::default();
    headers.insert("frame".into(), text(GROUP));
    headers.insert("source".into(), text(first.source.as_str()));
    let events = i64::try_from(messages.clone().count()).unwrap_or(i64::MAX);
    headers.insert("events".into(), AMQPValue::LongLongInt(events));
    Some(Outgoing {
        queue: QueueName::Work(first.source.clone()).to_string().into(),
        properties: properties(first).with_headers(headers),
        body: Body::Framed(group::write(messages)),
    })
}

fn content_type(facts: &str) -> Option<Cow<'_, str>> {
    #[derive(Deserialize)]
    struct ContentTypeOnly<'a> {
        #[serde(borrow, default)]
        content_type: Option<Cow<'a, str>>,
    }
    serde_json::from_str::<ContentTypeOnly<'_>>(facts).ok()?.content_type
}

/// What a delivery holds.
#[derive(Debug)]
pub(crate) enum Content {
    One(Box<Message>),
    /// A group, and the bytes it was read from.
    Several(Vec<Message>, Bytes),
}

/// Reads a delivery.
pub(crate) fn decode(properties: &BasicProperties, data: Vec<u8>) -> Result<Content, Unreadable> {
    let headers = Headers(properties.headers().as_ref().ok_or("it has no headers: not published by Oncefold")?);
    let body = Bytes::from(data);
    match headers.text("frame")? {
        RAW => one(properties, &headers, headers.text("facts")?.to_owned(), body),
        FACTS_FIRST => {
            let (facts, body) = split(body, headers.number("facts_bytes")?)?;
            one(properties, &headers, facts, body)
        }
        GROUP => {
            let messages = group::read(&headers.source()?, body.clone()).map_err(|e| e.to_string())?;
            let told: usize = headers.number("events")?;
            if messages.is_empty() || messages.len() != told {
                return Err(format!("its group holds {} events, not {told}", messages.len()).into());
            }
            Ok(Content::Several(messages, body))
        }
        frame => Err(Unreadable::Newer(format!("frame {:?}", frame.chars().take(32).collect::<String>()))),
    }
}

fn one(properties: &BasicProperties, headers: &Headers<'_>, facts: String, body: Bytes) -> Result<Content, Unreadable> {
    let id = properties.message_id().as_ref().and_then(|id| EventUuid::parse(id.as_str()));
    let event_type = match properties.kind() {
        Some(kind) => Some(kind.as_str().to_owned()),
        None if headers.0.contains_key("type") => Some(headers.text("type")?.to_owned()),
        None => None,
    };
    Ok(Content::One(Box::new(Message {
        id: id.ok_or("its message_id is no UUID")?,
        source: headers.source()?,
        event_id: headers.text("event_id")?.to_owned(),
        event_type,
        received_at: Timestamp::from_micros(headers.number("received_at_us")?),
        generation: headers.number("generation")?,
        attempts: headers.number("attempts")?,
        digest: Digest::parse_hex(headers.text("digest")?).ok_or("its `digest` is not 64 hex digits")?,
        facts: FactsJson::from_text(facts),
        body,
    })))
}

fn split(framed: Bytes, facts_bytes: usize) -> Result<(String, Bytes), String> {
    if facts_bytes > framed.len() {
        return Err("its `facts_bytes` is more than its body".to_owned());
    }
    let mut body = framed;
    let facts = String::from_utf8(body.split_to(facts_bytes).into()).map_err(|_| "its facts are not UTF-8")?;
    Ok((facts, body))
}

struct Headers<'a>(&'a FieldTable);

impl<'a> Headers<'a> {
    fn text(&self, name: &str) -> Result<&'a str, String> {
        match self.0.inner().get(name) {
            Some(AMQPValue::LongString(value)) => {
                std::str::from_utf8(value.as_bytes()).map_err(|_| format!("its header `{name}` is not UTF-8"))
            }
            Some(_) => Err(format!("its header `{name}` is no text")),
            None => Err(format!("its header `{name}` is missing: not published by Oncefold")),
        }
    }

    fn source(&self) -> Result<SourceName, String> {
        SourceName::parse(self.text("source")?).map_err(|_| "its `source` is no source name".to_owned())
    }

    fn number<T: TryFrom<i64>>(&self, name: &str) -> Result<T, String> {
        match self.0.inner().get(name) {
            Some(AMQPValue::LongLongInt(value)) => {
                T::try_from(*value).map_err(|_| format!("its header `{name}` is out of range"))
            }
            Some(_) => Err(format!("its header `{name}` is no 64-bit number")),
            None => Err(format!("its header `{name}` is missing: not published by Oncefold")),
        }
    }
}

/// How a message came to the dead queue, from the headers the broker adds (RabbitMQ 3.10 and 4): the latest entry of
/// `x-death`, else `x-first-death-reason`, else what we wrote ourselves. None for a message that was not dead-lettered.
pub(crate) fn death(properties: &BasicProperties) -> Option<Death> {
    let headers = properties.headers().as_ref()?.inner();
    let latest = match headers.get("x-death") {
        Some(AMQPValue::FieldArray(deaths)) => match deaths.as_slice().first() {
            Some(AMQPValue::FieldTable(death)) => death.inner().get("reason"),
            _ => None,
        },
        _ => None,
    };
    match latest.or_else(|| headers.get("x-first-death-reason")).or_else(|| headers.get("death"))? {
        AMQPValue::LongString(reason) if reason.as_bytes() == REJECTED.as_bytes() => Some(Death::Rejected),
        AMQPValue::LongString(reason) if reason.as_bytes() == b"delivery_limit" => Some(Death::DeliveryLimit),
        _ => None,
    }
}

/// The same for a delivery, taking its bytes.
pub(crate) fn read(delivery: Delivery) -> (Result<Content, Unreadable>, Option<Death>) {
    (decode(&delivery.properties, delivery.data), death(&delivery.properties))
}

#[cfg(test)]
#[path = "wire_tests.rs"]
mod tests;
