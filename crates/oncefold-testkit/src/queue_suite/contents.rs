//! What is published is what arrives: bytes, fields, order.

use super::steps::{
    ROOMY, declare, depth_becomes, event_ids, message, messages, nothing_comes, numbers, publish, publish_many,
    settle_all, subscribe, take,
};
use bytes::Bytes;
use oncefold_core::queue::{Queue, QueueName, Settlement};
use oncefold_core::{Digest, Facts, FactsJson, Timestamp};
use std::sync::Arc;

/// Every field, at its limits: a body with NULs and every byte, an event id of 256 bytes of Unicode, facts of more than
/// 16 KiB with quotes and a NUL.
pub async fn every_field_arrives(queue: Arc<dyn Queue>) {
    let sources = declare(&queue, &["shop-1_x"]).await;
    let mut sent =
        message("shop-1_x", &("é☃🦀".repeat(28) + "éé"), (0..=255u8).cycle().take(4096).collect::<Vec<u8>>());
    assert_eq!((sent.event_id.len(), sent.body.len()), (256, 4096));
    sent.event_type = Some("t".repeat(200));
    sent.received_at = Timestamp::from_micros(1_700_000_000_123_457);
    sent.generation = u32::MAX;
    sent.attempts = 7;
    sent.facts = FactsJson::encode(&Facts {
        trace_id: "0123456789abcdef0123456789abcdef".to_owned(),
        content_type: Some("application/json; charset=\"utf-8\"".to_owned()),
        headers: vec![("x-big".to_owned(), "\"\\é\u{1}".repeat(4096)), ("x-nul".to_owned(), "a\0b".to_owned())],
        query: "a=1&b=%00".to_owned(),
        scheme: "hmac".to_owned(),
        secret_index: Some(1),
    });
    let mut plain = message("shop-1_x", "plain", "{}");
    plain.event_type = None;
    plain.facts = FactsJson::encode(&Facts::default());
    for message in [&sent, &plain] {
        publish(&queue, message).await;
    }

    let mut subscription = subscribe(&queue, &sources[0], ROOMY).await;
    let received = take(&mut subscription, 2).await;

    assert_eq!(messages(&received), [&sent, &plain]);
    assert!(received.iter().all(|r| r.death.is_none()), "a message on a work queue is no letter");
}

/// 1 MiB of body, and the digest it was published with.
pub async fn a_megabyte_arrives_whole(queue: Arc<dyn Queue>) {
    let sources = declare(&queue, &["shop"]).await;
    let body: Vec<u8> = (0..1 << 20).map(|n: u32| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let sent = message("shop", "big", body);
    publish(&queue, &sent).await;

    let mut subscription = subscribe(&queue, &sources[0], ROOMY).await;
    let received = take(&mut subscription, 1).await;

    let arrived = messages(&received)[0];
    assert!(arrived.body == sent.body, "the bytes differ");
    assert_eq!(arrived.digest, Digest::of(&arrived.body));
}

/// A body of no bytes is a body.
pub async fn an_empty_body_arrives(queue: Arc<dyn Queue>) {
    let sources = declare(&queue, &["shop"]).await;
    let sent = message("shop", "empty", Bytes::new());
    publish(&queue, &sent).await;

    let mut subscription = subscribe(&queue, &sources[0], ROOMY).await;
    assert_eq!(messages(&take(&mut subscription, 1).await), [&sent]);
}

/// One publisher's messages of one source arrive in the order of their confirms.
pub async fn order_is_kept(queue: Arc<dyn Queue>) {
    let sources = declare(&queue, &["shop"]).await;
    publish_many(&queue, &sources[0], 50).await;

    let mut subscription = subscribe(&queue, &sources[0], ROOMY).await;
    assert_eq!(event_ids(&take(&mut subscription, 50).await), numbers(0..50));
}

/// A source's messages are on its queue, and on no other.
pub async fn sources_do_not_mix(queue: Arc<dyn Queue>) {
    let sources = declare(&queue, &["one", "two"]).await;
    for name in ["one", "two"] {
        publish(&queue, &message(name, name, "{}")).await;
    }
    for (source, name) in sources.iter().zip(["one", "two"]) {
        let mut subscription = subscribe(&queue, source, ROOMY).await;
        assert_eq!(event_ids(&take(&mut subscription, 1).await), [name]);
        nothing_comes(&mut subscription).await;
    }
}

/// Depths count what waits in each queue, of the sources asked for and of the dead letters.
pub async fn depths_are_told(queue: Arc<dyn Queue>) {
    let sources = declare(&queue, &["one", "two"]).await;
    publish_many(&queue, &sources[0], 3).await;
    let [one, two] = [0, 1].map(|n| QueueName::Work(sources[n].clone()));
    depth_becomes(&queue, &one, &sources, 3).await;
    depth_becomes(&queue, &two, &sources, 0).await;
    depth_becomes(&queue, &QueueName::Dead, &sources, 0).await;

    let mut subscription = subscribe(&queue, &sources[0], ROOMY).await;
    let received = take(&mut subscription, 3).await;
    settle_all(&mut subscription, &received[..2], Settlement::Reject).await;
    settle_all(&mut subscription, &received[2..], Settlement::Ack).await;

    depth_becomes(&queue, &QueueName::Dead, &sources, 2).await;
    depth_becomes(&queue, &one, &sources, 0).await;
    let asked_for_one = queue.depths(&sources[..1]).await.expect("depths");
    assert!(asked_for_one.iter().all(|(queue, _)| *queue != two), "{asked_for_one:?}");
}
