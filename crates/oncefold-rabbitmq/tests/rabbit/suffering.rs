//! What hurts a whole broker happens on one of its own, started here and stopped at the end.

use crate::broker::{Vhost, declare, until, within};
use crate::grouping::{EVENTS, ids, publish_at_once};
use crate::outages::assert_ends;
use oncefold_core::SourceName;
use oncefold_core::queue::{Death, PublishError, Publisher, Queue, QueueName, Received, Settlement};
use oncefold_testkit::builders;
use oncefold_testkit::queue_suite::steps::{
    ROOMY, depth_becomes, nothing_comes, publish_many, settle, settle_all, subscribe, subscribe_to, take,
};
use std::collections::HashMap;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::Arc;
use std::time::Duration;

const DIRECTORY: &str = "/var/tmp/oncefold-test-suffering";
const AMQP_PORT: &str = "61729";

struct OwnBroker {
    environment: HashMap<String, String>,
}

impl OwnBroker {
    fn start() -> Self {
        services(&["start", "rabbitmq"]);
        let lines = services(&["env"]);
        let environment = String::from_utf8_lossy(&lines.stdout)
            .lines()
            .filter_map(|line| line.strip_prefix("export ")?.split_once('='))
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        Self { environment }
    }

    fn vhost(&self) -> Vhost {
        Vhost::create_on(&self.environment["ONCEFOLD_TEST_AMQP_URL"], &self.environment["ONCEFOLD_TEST_RABBITMQ_HTTP"])
    }

    fn control(&self, arguments: &[&str]) {
        let output = Command::new(&self.environment["ONCEFOLD_TEST_RABBITMQCTL"]).args(arguments).output();
        succeeded(arguments, output.expect("rabbitmqctl runs"));
    }
}

impl Drop for OwnBroker {
    fn drop(&mut self) {
        services(&["reset"]);
    }
}

fn services(arguments: &[&str]) -> Output {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/services");
    let mut command = Command::new(script);
    command.args(arguments).env("ONCEFOLD_TEST_DIR", DIRECTORY).env("ONCEFOLD_TEST_AMQP_PORT", AMQP_PORT);
    succeeded(arguments, command.output().expect("scripts/services runs"))
}

fn succeeded(what: &[&str], output: Output) -> Output {
    assert!(output.status.success(), "{what:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

/// While nothing can be published, no letter of a single event can: the group of a rejected one is dead as a whole, once
/// the last of its events is settled, and not before.
async fn a_group_goes_whole_where_its_letters_cannot(queue: &Arc<dyn Queue>, source: &SourceName) {
    let mut dead = subscribe_to(queue, QueueName::Dead, ROOMY).await;
    let mut work = subscribe(queue, source, ROOMY).await;
    // The last to come stays open: its group comes again, and nothing else.
    let received = take(&mut work, EVENTS).await;
    settle_all(&mut work, &received[..EVENTS - 1], Settlement::Ack).await;
    work.close().await;
    let mut work = subscribe(queue, source, ROOMY).await;
    let group = within("the group comes again", work.receive(EVENTS, Duration::from_secs(1))).await.expect("a batch");
    let members = ids(&group);
    let open = ids(&received[EVENTS - 1..]);
    assert!(members.len() > 1 && members.is_superset(&open), "{open:?} came alone, or not: {members:?}");

    let last = group.len() - 1;
    settle(&mut work, vec![(group[0].tag, Settlement::Reject)]).await;
    settle_all(&mut work, &group[1..last], Settlement::Ack).await;
    nothing_comes(&mut dead).await;
    settle(&mut work, vec![(group[last].tag, Settlement::Ack)]).await;
    let letters: Vec<Received> = take(&mut dead, group.len()).await;
    assert!(letters.iter().all(|letter| letter.death == Some(Death::Rejected)));
    assert_eq!(ids(&letters), members);
    depth_becomes(queue, &QueueName::Work(source.clone()), std::slice::from_ref(source), 0).await;
    settle_all(&mut dead, &letters, Settlement::Ack).await;
    work.close().await;
    dead.close().await;
}

/// A memory alarm: away, told why, while looking after queues and consuming go on; back when it is over. Then a restart:
/// subscriptions end, and both halves come back, with what was on the queue.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn alarms_and_restarts_pass() {
    let broker = OwnBroker::start();
    let vhost = broker.vhost();
    let rabbit = vhost.queue_by(vhost.address(), Duration::from_secs(2));
    let sources = declare(&rabbit, &["shop", "bank"]).await;
    publish_at_once(&rabbit, &sources[1]).await;
    let publish = async || {
        let message = Arc::new(builders::message("shop", "id", "{}").build());
        within("a publish has a verdict", rabbit.publish(message)).await
    };
    let queue: Arc<dyn Queue> = rabbit.clone();
    publish_many(&queue, &sources[0], 3).await;

    broker.control(&["set_vm_memory_high_watermark", "absolute", "1"]);
    until(
        "the alarm is noticed",
        async || matches!(publish().await, Err(PublishError::Away(why)) if why.contains("memory")),
    )
    .await;
    let mut during = subscribe(&queue, &sources[0], ROOMY).await;
    take(&mut during, 3).await;
    during.close().await;
    a_group_goes_whole_where_its_letters_cannot(&queue, &sources[1]).await;
    broker.control(&["set_vm_memory_high_watermark", "0.6"]);
    until("publishing works again", async || publish().await.is_ok()).await;

    let mut before = subscribe(&queue, &sources[0], ROOMY).await;
    take(&mut before, 4).await;
    broker.control(&["stop_app"]);
    assert_ends(&mut before).await;
    assert!(matches!(publish().await, Err(PublishError::Away(_))));
    broker.control(&["start_app"]);
    until("consuming works again", async || {
        let Ok(mut after) = queue.subscribe(QueueName::Work(sources[0].clone()), ROOMY).await else { return false };
        take(&mut after, 4).await;
        true
    })
    .await;
    until("publishing works again", async || publish().await.is_ok()).await;
    rabbit.close().await;
}
