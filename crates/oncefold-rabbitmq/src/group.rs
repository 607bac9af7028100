//! Several events of one source in one AMQP message, for when many are under way at once: the broker takes, keeps,
//! delivers and forgets a message for little more than the price of one event.
//!
//! The body is one part after the other; integers are big-endian, a text is its length in bytes (u32) and its bytes.
//!
//! | field | bytes |
//! |---|---|
//! | id | 16 |
//! | received_at, microseconds (i64) | 8 |
//! | generation, attempts (u32 each) | 8 |
//! | digest | 32 |
//! | event id, facts: texts | 4 + n each |
//! | whether there is a type (0, 1); the type, a text, where there is one | 1, 4 + n |
//! | body: its length (u32) and its exact bytes | 4 + n |

use bytes::{Buf, BufMut, Bytes, TryGetError};
use oncefold_core::{Digest, EventUuid, FactsJson, Message, SourceName, Timestamp};
use thiserror::Error;

/// Why bytes are no group.
#[derive(Debug, Error)]
pub(crate) enum NoGroup {
    #[error("its group ends in the middle of an event")]
    CutOff,
    #[error("a text in its group is not UTF-8")]
    NotUtf8,
    #[error("its group has a flag that is neither 0 nor 1")]
    BadFlag,
}

impl From<TryGetError> for NoGroup {
    fn from(_: TryGetError) -> Self {
        Self::CutOff
    }
}

/// Bytes of an event's part, not less than what [`write`] makes of it.
pub(crate) fn size(message: &Message) -> usize {
    const FIXED: usize = 16 + 8 + 8 + 32 + 4 * 4 + 1;
    let event_type = message.event_type.as_ref().map_or(0, String::len);
    FIXED + message.event_id.len() + event_type + message.facts.as_str().len() + message.body.len()
}

/// The body of a message that carries these events. Each of their texts and bodies must be shorter than 4 GiB.
pub(crate) fn write<'a>(messages: impl Iterator<Item = &'a Message> + Clone) -> Vec<u8> {
    let mut to = Vec::with_capacity(messages.clone().map(size).sum());
    for message in messages {
        to.put_slice(message.id.as_bytes());
        to.put_i64(message.received_at.as_micros());
        to.put_u32(message.generation);
        to.put_u32(message.attempts);
        to.put_slice(message.digest.as_bytes());
        put(&mut to, message.event_id.as_bytes());
        put(&mut to, message.facts.as_str().as_bytes());
        to.put_u8(message.event_type.is_some().into());
        message.event_type.iter().for_each(|event_type| put(&mut to, event_type.as_bytes()));
        put(&mut to, &message.body);
    }
    to
}

fn put(to: &mut Vec<u8>, bytes: &[u8]) {
    to.put_u32(bytes.len() as u32); // what goes into a group is bounded far below
    to.put_slice(bytes);
}

/// The events of a group, all or none. Their bodies share its bytes.
pub(crate) fn read(source: &SourceName, mut from: Bytes) -> Result<Vec<Message>, NoGroup> {
    let mut messages = vec![];
    while from.has_remaining() {
        messages.push(part(source, &mut from)?);
    }
    Ok(messages)
}

fn part(source: &SourceName, from: &mut Bytes) -> Result<Message, NoGroup> {
    Ok(Message {
        source: source.clone(),
        id: EventUuid::from_bytes(array(from)?),
        received_at: Timestamp::from_micros(from.try_get_i64()?),
        generation: from.try_get_u32()?,
        attempts: from.try_get_u32()?,
        digest: Digest::from_bytes(array(from)?),
        event_id: text(from)?,
        facts: FactsJson::from_text(text(from)?),
        event_type: match from.try_get_u8()? {
            0 => None,
            1 => Some(text(from)?),
            _ => return Err(NoGroup::BadFlag),
        },
        body: bytes(from)?,
    })
}

fn array<const N: usize>(from: &mut Bytes) -> Result<[u8; N], NoGroup> {
    let mut array = [0; N];
    from.try_copy_to_slice(&mut array)?;
    Ok(array)
}

fn bytes(from: &mut Bytes) -> Result<Bytes, NoGroup> {
    let length = from.try_get_u32()? as usize;
    if length > from.len() {
        return Err(NoGroup::CutOff);
    }
    Ok(from.split_to(length))
}

fn text(from: &mut Bytes) -> Result<String, NoGroup> {
    let bytes = bytes(from)?;
    std::str::from_utf8(&bytes).map(str::to_owned).map_err(|_| NoGroup::NotUtf8)
}

#[cfg(test)]
mod tests {
    use super::*;
    use oncefold_testkit::builders;

    fn some() -> Vec<Message> {
        let plain = builders::message("shop", "1", &b"a\0b\xFF"[..]);
        let bare = builders::message("shop", "", "").event_type(None);
        let long = builders::message("shop", "2", vec![b'x'; 70_000]).event_type(Some(""));
        vec![plain.build(), bare.build(), long.build()]
    }

    #[test]
    fn what_is_written_is_read() {
        let messages = some();
        let written = write(messages.iter());
        assert_eq!(written.len(), messages.iter().map(size).sum::<usize>() - 4, "one part has no type");
        assert_eq!(read(&messages[0].source, written.into()).unwrap(), messages);
    }

    /// The layout is a promise between versions: bytes written out by hand from the table above.
    #[test]
    fn the_layout_stays() {
        let message = Message {
            id: EventUuid::from_bytes([7; 16]),
            source: SourceName::parse("shop").unwrap(),
            event_id: "e".to_owned(),
            event_type: Some("t".to_owned()),
            received_at: Timestamp::from_micros(258),
            generation: 3,
            attempts: 4,
            digest: Digest::from_bytes([9; 32]),
            facts: FactsJson::from_text("{}".to_owned()),
            body: Bytes::from_static(b"bo"),
        };
        let mut expected = vec![7; 16];
        expected.extend([0, 0, 0, 0, 0, 0, 1, 2, 0, 0, 0, 3, 0, 0, 0, 4]);
        expected.extend([9; 32]);
        expected.extend(b"\0\0\0\x01e\0\0\0\x02{}\x01\0\0\0\x01t\0\0\0\x02bo");
        assert_eq!(write(std::iter::once(&message)), expected);
    }

    #[test]
    fn what_is_cut_or_damaged_is_refused_whole() {
        let messages = some();
        let written = Bytes::from(write(messages.iter()));
        let ends: Vec<usize> = messages
            .iter()
            .scan(0, |at, m| {
                *at += write(std::iter::once(m)).len();
                Some(*at)
            })
            .collect();
        for length in (0..300).chain(written.len() - 300..written.len()) {
            let cut = read(&messages[0].source, written.slice(..length));
            assert_eq!(cut.is_ok(), length == 0 || ends.contains(&length), "cut at {length}");
        }
        let mut mangled = write(messages[..1].iter());
        mangled[68] = 0xFF; // the event id
        assert!(matches!(read(&messages[0].source, mangled.into()), Err(NoGroup::NotUtf8)));
    }
}
