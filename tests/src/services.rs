//! The private PostgreSQL and RabbitMQ that `scripts/test` starts. A test has a database and a vhost of its own.

use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

static NEXT: AtomicU32 = AtomicU32::new(0);

fn required(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set: run the tests with ./scripts/test"))
}

fn unique() -> String {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
    format!("oncefold_test_{seconds}_{}_{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// A database of one test; dropped with it.
#[derive(Debug)]
pub struct Database {
    name: String,
}

impl Database {
    /// Creates it, empty.
    pub fn create() -> Self {
        let name = unique();
        psql(&required("ONCEFOLD_TEST_POSTGRES_URL"), &format!("CREATE DATABASE {name}"));
        Self { name }
    }

    /// Its URL.
    pub fn url(&self) -> String {
        let server = required("ONCEFOLD_TEST_POSTGRES_URL");
        let (server, _) = server.rsplit_once('/').expect("a URL with a database");
        format!("{server}/{}", self.name)
    }

    /// Runs SQL in it; gives the rows as psql prints them, unaligned.
    pub fn sql(&self, sql: &str) -> String {
        psql(&self.url(), sql)
    }
}

/// A table that a session holds locked, so that nobody else reads or writes it; released when dropped.
pub struct Locked {
    session: std::process::Child,
    url: String,
    table: String,
}

impl Database {
    /// Locks a table until the answer is dropped.
    pub fn lock(&self, table: &str) -> Locked {
        let held = format!("BEGIN; LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE; SELECT pg_sleep(600)");
        let session = Command::new("psql").args(["-qAtX", &self.url(), "-c", &held]).spawn().expect("psql");
        let look = format!(
            "SELECT count(*) FROM pg_locks WHERE relation = '{table}'::regclass AND mode = 'AccessExclusiveLock' AND granted"
        );
        crate::wait::until("the table is locked", std::time::Duration::from_secs(10), || {
            match self.sql(&look).as_str() {
                "0" => Err("not yet"),
                _ => Ok(()),
            }
        });
        Locked { session, url: self.url(), table: table.to_owned() }
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        let table = &self.table;
        psql(
            &self.url,
            &format!(
                "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE relation = '{table}'::regclass \
                 AND mode = 'AccessExclusiveLock' AND granted"
            ),
        );
        let _ = self.session.wait();
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        let drop = format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", self.name);
        let server = required("ONCEFOLD_TEST_POSTGRES_URL");
        let _ = Command::new("psql").args(["-qAtX", &server, "-c", &drop]).output();
    }
}

fn psql(url: &str, sql: &str) -> String {
    let out = Command::new("psql").args(["-qAtX", "-v", "ON_ERROR_STOP=1", url, "-c", sql]).output().expect("psql");
    assert!(out.status.success(), "{sql}: {}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8_lossy(&out.stdout).trim().to_owned()
}

/// Runs SQL in a SQLite file, beside whoever has it open.
pub fn sqlite(file: &Path, sql: &str) {
    let run = "import sqlite3, sys; sqlite3.connect(sys.argv[1], timeout=30).executescript(sys.argv[2])";
    let python = required("ONCEFOLD_TEST_PYTHON");
    let out = Command::new(python).args(["-c", run]).arg(file).arg(sql).output().expect("python");
    assert!(out.status.success(), "{sql}: {}", String::from_utf8_lossy(&out.stderr));
}

/// A vhost of one test; deleted with it.
#[derive(Debug)]
pub struct Vhost {
    name: String,
}

impl Vhost {
    /// Creates it, empty.
    pub fn create() -> Self {
        let name = unique();
        let answer = agent().put(management(&name)).header("authorization", GUEST).send_empty();
        answer.expect("the broker's management API makes a vhost");
        Self { name }
    }

    /// The AMQP URL of the vhost.
    pub fn url(&self) -> String {
        format!("{}/{}", required("ONCEFOLD_TEST_AMQP_URL"), self.name)
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Messages in a queue, ready or not; nothing where there is no such queue.
    pub fn messages(&self, queue: &str) -> Option<u64> {
        self.figure(queue, "messages")
    }

    /// Messages of a queue that consumers hold; nothing where there is no such queue.
    pub fn unacked(&self, queue: &str) -> Option<u64> {
        self.figure(queue, "messages_unacknowledged")
    }

    fn figure(&self, queue: &str, figure: &str) -> Option<u64> {
        let out = rabbitmqctl(&["-q", "list_queues", "-p", &self.name, "name", figure, "--no-table-headers"]);
        out.lines().filter_map(|line| line.split_once('\t')).find(|(name, _)| *name == queue)?.1.trim().parse().ok()
    }
}

impl Drop for Vhost {
    fn drop(&mut self) {
        let _ = agent().delete(management(&self.name)).header("authorization", GUEST).call();
    }
}

/// `guest:guest`, the user of the private broker.
const GUEST: &str = "Basic Z3Vlc3Q6Z3Vlc3Q=";

fn management(vhost: &str) -> String {
    let http = required("ONCEFOLD_TEST_RABBITMQ_HTTP");
    let host = http.rsplit_once('@').map_or(http.as_str(), |(_, host)| host);
    format!("http://{host}/api/vhosts/{vhost}")
}

fn agent() -> ureq::Agent {
    ureq::Agent::new_with_defaults()
}

/// Runs rabbitmqctl against the private broker; gives what it printed.
pub fn rabbitmqctl(args: &[&str]) -> String {
    let out = Command::new(required("ONCEFOLD_TEST_RABBITMQCTL")).args(args).output().expect("rabbitmqctl");
    assert!(out.status.success(), "rabbitmqctl {args:?}: {}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8_lossy(&out.stdout).into_owned()
}
