//! The broker of the tests, and a virtual host for one test.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use oncefold_core::SourceName;
use oncefold_core::queue::{Publisher, QueueAdmin};
use oncefold_rabbitmq::{RabbitQueue, RabbitSettings};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

pub use oncefold_testkit::queue_suite::steps::{until, within};

/// How long a publish may take in tests that do not wait for it to fail.
pub const PATIENT: Duration = Duration::from_secs(20);

fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| {
        panic!("{name} is not set: run `scripts/services start`, then eval \"$(scripts/services env)\"")
    })
}

/// `scheme://user:password@host:port`
pub struct Address {
    pub user: String,
    pub host_port: String,
}

impl Address {
    fn parse(url: &str) -> Self {
        let rest = url.split_once("://").expect("a URL").1.trim_end_matches('/');
        let (user, host_port) = rest.split_once('@').expect("user:password@host");
        Self { user: user.to_owned(), host_port: host_port.to_owned() }
    }
}

/// A virtual host of its own, deleted when dropped.
pub struct Vhost {
    pub name: String,
    http: Address,
    amqp: Address,
}

impl Vhost {
    /// On the broker that all tests share.
    pub fn create() -> Self {
        Self::create_on(&variable("ONCEFOLD_TEST_AMQP_URL"), &variable("ONCEFOLD_TEST_RABBITMQ_HTTP"))
    }

    /// On this broker.
    #[allow(clippy::disallowed_methods)] // names carry the time so that leftovers of killed tests can be swept
    pub fn create_on(amqp: &str, http: &str) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let seconds = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs();
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("oncefold_test_{seconds}_rabbit_{}_{count}", std::process::id());
        let vhost = Self { name, http: Address::parse(http), amqp: Address::parse(amqp) };
        vhost.http("PUT", &format!("vhosts/{}", vhost.name), "");
        vhost
    }

    /// Asks the management API; panics unless it agrees.
    pub fn http(&self, method: &str, path: &str, body: &str) {
        let mut socket = TcpStream::connect(&self.http.host_port).expect("the broker's management API");
        let authorization = BASE64_STANDARD.encode(&self.http.user);
        let request = format!(
            "{method} /api/{path} HTTP/1.1\r\nHost: x\r\nAuthorization: Basic {authorization}\r\nConnection: close\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        socket.write_all(request.as_bytes()).expect("a request");
        let mut answer = Vec::new();
        socket.read_to_end(&mut answer).expect("an answer");
        let answer = String::from_utf8_lossy(&answer);
        assert!(answer.starts_with("HTTP/1.1 20"), "{method} {path}: {answer}");
    }

    /// Where the broker listens.
    pub fn address(&self) -> SocketAddr {
        self.amqp.host_port.parse().expect("host:port with an address")
    }

    /// The URL, by way of this address.
    pub fn url_by(&self, address: SocketAddr) -> String {
        format!("amqp://{}@{address}/{}", self.amqp.user, self.name)
    }

    pub fn queue(&self) -> Arc<RabbitQueue> {
        self.queue_by(self.address(), PATIENT)
    }

    pub fn queue_by(&self, address: SocketAddr, confirm_timeout: Duration) -> Arc<RabbitQueue> {
        start(self.url_by(address), confirm_timeout)
    }
}

impl Drop for Vhost {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.http("DELETE", &format!("vhosts/{}", self.name), "");
        }
    }
}

/// A quorum queue whose process does nothing, as one whose majority is gone.
pub struct FrozenQueue {
    lookup: String,
}

impl FrozenQueue {
    pub fn freeze(vhost: &Vhost, name: &str) -> Self {
        let frozen = Self {
            lookup: format!(
                "{{ok, Q}} = rabbit_amqqueue:lookup(rabbit_misc:r(<<\"{}\">>, queue, <<\"{name}\">>)), \
                 {{P, _}} = amqqueue:get_pid(Q)",
                vhost.name
            ),
        };
        eval(&format!("{}, sys:suspend(P).", frozen.lookup));
        frozen
    }

    pub fn thaw(self) {
        eval(&format!("{}, sys:resume(P).", self.lookup));
    }
}

fn eval(expression: &str) {
    let out = Command::new(variable("ONCEFOLD_TEST_RABBITMQCTL")).args(["eval", expression]).output();
    let said = String::from_utf8(out.expect("rabbitmqctl").stdout).expect("text");
    assert_eq!(said.trim(), "ok", "{expression}");
}

pub fn start(url: String, confirm_timeout: Duration) -> Arc<RabbitQueue> {
    RabbitQueue::start(RabbitSettings { url, confirm_timeout, publish_channels: 2, group_max: 64 }).expect("a good URL")
}

/// Waits until the queue is there and these sources' queues are declared.
pub async fn declare(queue: &Arc<RabbitQueue>, names: &[&str]) -> Vec<SourceName> {
    let sources: Vec<_> = names.iter().map(|name| SourceName::parse(name).expect("a source name")).collect();
    until("the broker takes declarations and publishes", async || {
        queue.declare(&sources).await.is_ok() && queue.is_available()
    })
    .await;
    sources
}
