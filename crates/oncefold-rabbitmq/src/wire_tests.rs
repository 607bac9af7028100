use super::*;
use oncefold_core::Facts;
use oncefold_testkit::builders;

const FRAME_MAX: usize = 131_072;

fn round_trip(message: &Message) -> (Outgoing, Result<Message, Unreadable>) {
    let outgoing = encode(Arc::new(message.clone()), FRAME_MAX).expect("encodable");
    let read = decode_one(&outgoing.properties, outgoing.body.bytes().to_vec());
    (outgoing, read)
}

fn decode_one(properties: &BasicProperties, data: Vec<u8>) -> Result<Message, Unreadable> {
    decode(properties, data).map(|content| match content {
        Content::One(message) => *message,
        Content::Several(..) => panic!("several"),
    })
}

fn refusal(properties: &BasicProperties, data: Vec<u8>) -> String {
    match decode(properties, data) {
        Err(Unreadable::Foreign(why)) => why,
        other => panic!("{other:?}"),
    }
}

fn headers_size(outgoing: &Outgoing) -> usize {
    let headers = outgoing.properties.headers().as_ref().expect("headers").inner();
    headers
        .iter()
        .map(|(name, value)| match value {
            AMQPValue::LongString(text) => name.as_str().len() + 6 + text.len(),
            _ => name.as_str().len() + 10,
        })
        .sum()
}

fn with_query(bytes: usize) -> Message {
    let facts = Facts { content_type: Some("text/xml".to_owned()), query: "q".repeat(bytes), ..Facts::default() };
    builders::message("shop", "1", &b"a\0b"[..]).facts(&facts).build()
}

#[test]
fn properties_are_for_people_and_the_body_is_untouched() {
    let message = with_query(10);
    let (outgoing, read) = round_trip(&message);
    let properties = &outgoing.properties;
    assert_eq!(outgoing.queue.as_str(), "oncefold.work.shop");
    assert_eq!(properties.delivery_mode(), &Some(2));
    assert_eq!(properties.message_id().as_ref().unwrap().as_str(), message.id.to_string());
    assert_eq!(properties.kind().as_ref().unwrap().as_str(), "order.updated");
    assert_eq!(properties.content_type().as_ref().unwrap().as_str(), "text/xml");
    assert_eq!(*properties.timestamp(), Some(1_767_323_045));
    assert_eq!(outgoing.body.bytes(), b"a\0b");
    assert_eq!(read.unwrap(), message);
}

#[test]
fn text_that_fits_no_short_string_still_travels() {
    let facts = Facts { content_type: Some("x".repeat(256)), ..Facts::default() };
    let long_type = "t".repeat(256);
    let message = builders::message("shop", &"i".repeat(5000), "{}").event_type(Some(&long_type)).facts(&facts).build();
    assert_eq!(round_trip(&message).1.unwrap(), message);
}

#[test]
fn no_header_frame_exceeds_what_the_connection_allows() {
    for query in [0, 100_000, 128_000, 129_000, 131_072, 300_000] {
        let message = with_query(query);
        let (outgoing, read) = round_trip(&message);
        assert_eq!(read.unwrap(), message, "facts of {query} bytes");
        assert!(headers_size(&outgoing) + 600 < FRAME_MAX, "facts of {query} bytes");
    }
    let absurd = builders::message("shop", &"i".repeat(FRAME_MAX), "{}").build();
    assert!(matches!(encode(Arc::new(absurd), FRAME_MAX), Err(PublishError::Refused(_))));
    let large = builders::message("shop", "1", vec![0; BODY_BYTES_MAX + 1]).build();
    assert!(matches!(encode(Arc::new(large), FRAME_MAX), Err(PublishError::Refused(_))));
}

#[test]
fn what_is_not_ours_is_told_apart() {
    let (outgoing, _) = round_trip(&builders::message("shop", "1", "{}").build());
    let headers = outgoing.properties.headers().clone().unwrap();
    let mangled = |name: &str, value: Option<AMQPValue>| {
        let mut inner = headers.inner().clone();
        inner.remove(name);
        if let Some(value) = value {
            inner.insert(name.into(), value);
        }
        refusal(&outgoing.properties.clone().with_headers(inner.into()), b"{}".to_vec())
    };
    for name in ["frame", "source", "event_id", "received_at_us", "digest", "generation", "attempts", "facts"] {
        assert!(mangled(name, None).contains(name));
        assert!(mangled(name, Some(AMQPValue::Boolean(true))).contains(name));
    }
    mangled("frame", Some(text("group")));
    let of_tomorrow = |headers: FieldTable| decode(&outgoing.properties.clone().with_headers(headers), b"{}".to_vec());
    let mut headers_of_tomorrow = headers.clone();
    headers_of_tomorrow.insert("frame".into(), text("zstd"));
    assert!(matches!(of_tomorrow(headers_of_tomorrow), Err(Unreadable::Newer(why)) if why.contains("zstd")));
    mangled("source", Some(text("Not A Name")));
    mangled("digest", Some(text("abc")));
    mangled("generation", Some(AMQPValue::LongLongInt(-1)));
    mangled("event_id", Some(AMQPValue::LongString(vec![0xFF].into())));
    assert!(decode(&BasicProperties::default(), vec![]).is_err());
    let no_id = outgoing.properties.clone().with_message_id("1".into());
    assert!(refusal(&no_id, vec![]).contains("message_id"));
}

#[test]
fn a_broken_frame_is_no_panic() {
    let (outgoing, _) = round_trip(&with_query(300_000));
    assert!(refusal(&outgoing.properties, b"short".to_vec()).contains("facts_bytes"));
    assert!(refusal(&outgoing.properties, vec![0xFF; 400_000]).contains("UTF-8"));
}

#[test]
fn a_group_travels_whole_or_not_at_all() {
    let messages: Vec<_> = (0..5).map(|n| builders::message("shop", &n.to_string(), format!("{n}")).build()).collect();
    let outgoing = encode_group(messages.iter()).expect("some");
    assert_eq!(outgoing.queue.as_str(), "oncefold.work.shop");
    assert_eq!(outgoing.properties.message_id().as_ref().unwrap().as_str(), messages[0].id.to_string());
    assert_eq!(outgoing.properties.delivery_mode(), &Some(2));
    let body = outgoing.body.bytes().to_vec();
    let Ok(Content::Several(read, _)) = decode(&outgoing.properties, body.clone()) else { panic!("no group") };
    assert_eq!(read, messages);

    let first = super::group::size(&messages[0]);
    assert!(refusal(&outgoing.properties, body[..first].to_vec()).contains("1 events, not 5"));
    assert!(refusal(&outgoing.properties, body[..first + 7].to_vec()).contains("middle"));
    assert!(refusal(&outgoing.properties, vec![]).contains("0 events"));
    assert!(encode_group([].into_iter()).is_none());
}

#[test]
fn the_letter_of_a_part_says_that_it_was_rejected() {
    let message = builders::message("shop", "1", "{}").build();
    let letter = encode_letter(Arc::new(message.clone()), FRAME_MAX).expect("encodable");
    assert_eq!(letter.queue.as_str(), "oncefold.dead");
    assert_eq!(death(&letter.properties), Some(Death::Rejected));
    assert_eq!(decode_one(&letter.properties, letter.body.bytes().to_vec()), Ok(message));
}

#[test]
fn the_latest_death_counts() {
    let death_of = |entries: Vec<&str>, first: Option<&str>| {
        let mut headers = FieldTable::default();
        if !entries.is_empty() {
            let tables = entries.into_iter().map(|reason| {
                let mut table = FieldTable::default();
                table.insert("reason".into(), text(reason));
                AMQPValue::FieldTable(table)
            });
            headers.insert("x-death".into(), AMQPValue::FieldArray(tables.collect::<Vec<_>>().into()));
        }
        if let Some(first) = first {
            headers.insert("x-first-death-reason".into(), text(first));
        }
        death(&BasicProperties::default().with_headers(headers))
    };
    assert_eq!(death_of(vec!["rejected"], Some("rejected")), Some(Death::Rejected));
    assert_eq!(death_of(vec!["delivery_limit", "rejected"], Some("rejected")), Some(Death::DeliveryLimit));
    assert_eq!(death_of(vec![], Some("delivery_limit")), Some(Death::DeliveryLimit));
    assert_eq!(death_of(vec!["expired"], None), None);
    assert_eq!(death_of(vec![], None), None);
    assert_eq!(death(&BasicProperties::default()), None);
}
