//! A database per test, copied from a migrated template.

use async_trait::async_trait;
use oncefold_core::store::{SpoolStore, Store};
use oncefold_postgres::PostgresStore;
use oncefold_testkit::proxy::ChaosProxy;
use oncefold_testkit::store_suite::StoreFactory;
use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{AssertSqlSafe, Connection as _, Executor as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use tokio::net::lookup_host;
use tokio::sync::OnceCell;

/// The name of the template, made once a process.
static TEMPLATE: OnceCell<String> = OnceCell::const_new();
static NEXT: AtomicU32 = AtomicU32::new(0);

fn server_url() -> String {
    std::env::var("ONCEFOLD_TEST_POSTGRES_URL")
        .expect("ONCEFOLD_TEST_POSTGRES_URL is not set: run `eval \"$(scripts/services env)\"`, or scripts/test")
}

fn url_of(database: &str) -> String {
    let server = server_url();
    let (base, _) = server.rsplit_once('/').expect("the URL ends in /database");
    format!("{base}/{database}")
}

/// Runs statements on the server's own database.
async fn run(sql: String) {
    let mut connection = PgConnection::connect(&server_url()).await.expect("the test server answers");
    connection.execute(AssertSqlSafe(sql)).await.expect("a statement of the tests");
    connection.close().await.expect("the connection closes");
}

/// `oncefold_test_<unix seconds>_…`: `scripts/services` sweeps what a killed test leaves behind.
#[allow(clippy::disallowed_methods, reason = "the sweep goes by the wall clock")]
fn fresh_name(what: &str) -> String {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970").as_secs();
    format!("oncefold_test_{now}_{}_{what}{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

async fn make_template() -> String {
    let name = fresh_name("template");
    run(format!("CREATE DATABASE {name}")).await;
    let store = PostgresStore::connect(&url_of(&name), 1).await.expect("the template answers");
    store.migrate().await.expect("the migrations apply");
    store.close().await;
    name
}

/// A database of a test's own; dropped with this.
pub struct Databases {
    name: String,
}

impl Databases {
    /// A migrated database.
    pub async fn start() -> Self {
        let template = TEMPLATE.get_or_init(make_template).await;
        let name = fresh_name("");
        run(format!("CREATE DATABASE {name} TEMPLATE {template}")).await;
        Self { name }
    }

    /// An empty database, no schema in it.
    pub async fn empty() -> Self {
        let name = fresh_name("empty");
        run(format!("CREATE DATABASE {name}")).await;
        Self { name }
    }

    pub fn url(&self) -> String {
        url_of(&self.name)
    }

    pub async fn store(&self) -> PostgresStore {
        PostgresStore::connect(&self.url(), 10).await.expect("the database answers")
    }

    /// A proxy before the server, and this database's URL through it.
    pub async fn proxied(&self) -> (ChaosProxy, String) {
        let url = self.url();
        let options: PgConnectOptions = url.parse().expect("a URL");
        let server = lookup_host((options.get_host(), options.get_port())).await.expect("an address").next();
        let proxy = ChaosProxy::before(server.expect("an address")).await;
        let (user, rest) = url.split_once('@').expect("the URL names a user");
        let (_, database) = rest.split_once('/').expect("the URL ends in /database");
        let url = format!("{user}@{}/{database}", proxy.address());
        (proxy, url)
    }

    /// A connection for what the ports do not offer.
    pub async fn connection(&self) -> PgConnection {
        PgConnection::connect(&self.url()).await.expect("the database answers")
    }
}

#[async_trait]
impl StoreFactory for Databases {
    async fn fresh(&self) -> Arc<dyn Store> {
        Arc::new(self.store().await)
    }

    async fn spool(&self) -> Option<Arc<dyn SpoolStore>> {
        Some(Arc::new(self.store().await))
    }
}

impl Drop for Databases {
    fn drop(&mut self) {
        let sql = format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", self.name);
        let dropping = std::thread::spawn(|| {
            tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime").block_on(run(sql));
        });
        // A failure leaves it to the sweep; the test's own verdict counts.
        let _ = dropping.join();
    }
}
