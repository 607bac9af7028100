//! Verdicts of publishes, and declarations.

use crate::broker::{PATIENT, Vhost, declare, start, until, within};
use oncefold_core::queue::{Prefetch, PublishError, Publisher, Queue, QueueAdmin, QueueError, QueueName};
use oncefold_core::{EventUuid, SourceName};
use oncefold_rabbitmq::RabbitQueue;
use oncefold_testkit::builders;
use oncefold_testkit::queue_suite::steps::{ROOMY, messages, publish_many, subscribe, take};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

async fn publish(queue: &RabbitQueue, source: &str, id: &str) -> (EventUuid, Result<(), PublishError>) {
    let message = Arc::new(builders::message(source, id, "{}").build());
    let verdict = within("a publish has a verdict", queue.publish(message.clone())).await;
    (message.id, verdict)
}

/// Publishes from many tasks go to a queue that takes them, one that refuses, and one that does not exist: no publish may
/// get another's verdict. Through the client's plain use of a shared channel, several percent do.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn every_publish_gets_its_own_verdict() {
    const TASKS: usize = 48;
    const EACH: usize = 120;
    let vhost = Vhost::create();
    let queue = vhost.queue();
    let sources = declare(&queue, &["good"]).await;
    let full = r#"{"durable":true,"arguments":{"x-max-length":0,"x-overflow":"reject-publish"}}"#;
    vhost.http("PUT", &format!("queues/{}/oncefold.work.full", vhost.name), full);

    let mut tasks = tokio::task::JoinSet::new();
    for task in 0..TASKS {
        let queue = queue.clone();
        tasks.spawn(async move {
            let mut confirmed = Vec::new();
            for n in 0..EACH {
                let source = ["good", "full", "gone", "good"][(task + n) % 4];
                match (source, publish(&queue, source, &format!("{task}-{n}")).await) {
                    ("good", (id, Ok(()))) => confirmed.push(id),
                    ("full" | "gone", (_, Err(PublishError::Refused(_)))) => {}
                    (source, (_, verdict)) => panic!("a publish to {source} got {verdict:?}"),
                }
            }
            confirmed
        });
    }
    let confirmed: BTreeSet<_> = tasks.join_all().await.into_iter().flatten().collect();
    assert_eq!(confirmed.len(), TASKS * EACH / 2);

    let queue: Arc<dyn Queue> = queue;
    let mut subscription = subscribe(&queue, &sources[0], Prefetch { messages: 10_000, ..ROOMY }).await;
    let arrived: BTreeSet<_> =
        messages(&take(&mut subscription, TASKS * EACH / 2).await).into_iter().map(|message| message.id).collect();
    assert_eq!(arrived, confirmed);
}

/// A queue that an operator deleted is declared again once a publish has found it missing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deleted_work_queue_comes_back() {
    let vhost = Vhost::create();
    let queue = vhost.queue();
    declare(&queue, &["shop"]).await;
    publish(&queue, "shop", "1").await.1.expect("confirmed");
    vhost.http("DELETE", &format!("queues/{}/oncefold.work.shop", vhost.name), "");

    let refused = publish(&queue, "shop", "2").await.1.expect_err("no such queue");
    assert!(matches!(&refused, PublishError::Refused(why) if why.contains("does not exist")), "{refused}");
    assert!(queue.is_available(), "one refused message does not make the broker away");
    until("the queue is there again", async || publish(&queue, "shop", "3").await.1.is_ok()).await;
}

/// A queue with other arguments is named, with what to do; the others are declared all the same, and all stay in use.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_arguments_are_told() {
    let vhost = Vhost::create();
    vhost.http("PUT", &format!("queues/{}/oncefold.work.odd", vhost.name), r#"{"durable":true,"arguments":{}}"#);
    let queue = vhost.queue();
    until("the broker is there", async || queue.is_available()).await;

    let sources = ["odd", "shop"].map(|name| SourceName::parse(name).unwrap());
    let mut told = String::new();
    until("the trouble is told", async || match queue.declare(&sources).await {
        Err(QueueError::Misconfigured(_)) => true,
        Err(QueueError::Away(_)) => false,
        Ok(()) => panic!("declared over other arguments"),
    })
    .await;
    if let Err(error) = queue.declare(&sources).await {
        told = error.to_string();
    }
    assert!(told.contains("oncefold.work.odd") && told.contains("delete_queue"), "{told}");
    publish(&queue, "shop", "1").await.1.expect("confirmed");
    publish(&queue, "odd", "1").await.1.expect("confirmed");
}

/// Depths of queues that do not exist are 0, and the others are still told.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn missing_queues_hold_nothing() {
    let vhost = Vhost::create();
    let queue = vhost.queue();
    let shop = declare(&queue, &["shop"]).await.remove(0);
    publish(&queue, "shop", "1").await.1.expect("confirmed");
    let gone = SourceName::parse("gone").unwrap();
    until("depths are told", async || {
        let depths = queue.depths(&[gone.clone(), shop.clone()]).await.expect("depths");
        depths == [(QueueName::Work(gone.clone()), 0), (QueueName::Work(shop.clone()), 1), (QueueName::Dead, 0)]
    })
    .await;
}

/// What a message may not exceed is refused before it can close the channel under its neighbours.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn facts_of_any_size_travel_and_absurd_bodies_are_refused() {
    let vhost = Vhost::create();
    let rabbit = vhost.queue();
    let sources = declare(&rabbit, &["shop"]).await;
    let facts = oncefold_core::Facts { query: "q".repeat(300_000), ..Default::default() };
    let large = builders::message("shop", "facts", "{}").facts(&facts).build();
    within("confirmed", rabbit.publish(Arc::new(large.clone()))).await.expect("confirmed");
    let absurd = builders::message("shop", "body", vec![b' '; 17 << 20]).build();
    let refused = within("refused", rabbit.publish(Arc::new(absurd))).await;
    assert!(matches!(refused, Err(PublishError::Refused(_))), "{refused:?}");

    let queue: Arc<dyn Queue> = rabbit;
    publish_many(&queue, &sources[0], 1).await;
    let mut subscription = subscribe(&queue, &sources[0], ROOMY).await;
    assert_eq!(messages(&take(&mut subscription, 2).await)[0], &large);
}

/// A password with every character that URLs make trouble of.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn passwords_with_special_characters_work_and_wrong_ones_do_not_show() {
    let vhost = Vhost::create();
    let (user, password) = (format!("{}_user", vhost.name), "p@ss:w/ö%rd");
    vhost.http("PUT", &format!("users/{user}"), &format!(r#"{{"password":"{password}","tags":""}}"#));
    let all = r#"{"configure":".*","write":".*","read":".*"}"#;
    vhost.http("PUT", &format!("permissions/{}/{user}", vhost.name), all);
    let url = |password: &str| format!("amqp://{user}:{password}@{}/{}", vhost.address(), vhost.name);

    let queue = start(url("p%40ss%3Aw%2F%C3%B6%25rd"), PATIENT);
    declare(&queue, &["shop"]).await;
    publish(&queue, "shop", "1").await.1.expect("confirmed");

    let wrong = start(url("s3cret-guess"), PATIENT);
    until("the refusal is known", async || {
        let error = wrong.declare(&[]).await.expect_err("a wrong password").to_string();
        assert!(!error.contains("s3cret"), "{error}");
        error.contains("ACCESS_REFUSED")
    })
    .await;
    let away = publish(&wrong, "shop", "1").await.1.expect_err("away");
    assert!(!format!("{away:?} {wrong:?}").contains("s3cret"));
    vhost.http("DELETE", &format!("users/{user}"), "");
}

/// Closing waits for the confirms under way; afterwards everything says away.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn closing_waits_for_confirms() {
    let vhost = Vhost::create();
    let rabbit = vhost.queue();
    let sources = declare(&rabbit, &["shop"]).await;
    let mut under_way = tokio::task::JoinSet::new();
    for n in 0..200 {
        let (queue, message) = (rabbit.clone(), Arc::new(builders::message("shop", &n.to_string(), "{}").build()));
        under_way.spawn(async move { queue.publish(message).await });
    }
    within("some publish is confirmed", under_way.join_next()).await;
    let start = Instant::now();
    within("it closes", rabbit.close()).await;
    assert!(start.elapsed() < Duration::from_secs(10));

    let verdicts = within("all have a verdict", under_way.join_all()).await;
    let confirmed = 1 + verdicts.iter().filter(|verdict| verdict.is_ok()).count();
    assert!(verdicts.iter().all(|verdict| matches!(verdict, Ok(()) | Err(PublishError::Away(_)))), "{verdicts:?}");
    assert!(matches!(publish(&rabbit, "shop", "late").await.1, Err(PublishError::Away(_))));
    assert!(matches!(rabbit.declare(&sources).await, Err(QueueError::Away(_))));

    let again = vhost.queue();
    declare(&again, &["shop"]).await;
    let again: Arc<dyn Queue> = again;
    let mut subscription = subscribe(&again, &sources[0], ROOMY).await;
    take(&mut subscription, confirmed).await;
}

/// Told once, at whatever moment of connecting, a source gets its queue: who publishes need not know it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_source_that_is_told_while_it_connects_gets_its_queue() {
    let vhost = Vhost::create();
    let other = vhost.queue();
    declare(&other, &[]).await;
    for n in 0..60 {
        let queue = vhost.queue();
        tokio::time::sleep(Duration::from_micros(n * 300)).await;
        let name = format!("told-{n}");
        let _ = queue.declare(&[SourceName::parse(&name).unwrap()]).await; // away, or done
        until("its queue is there", async || publish(&other, &name, "1").await.1.is_ok()).await;
        queue.close().await;
    }
}
