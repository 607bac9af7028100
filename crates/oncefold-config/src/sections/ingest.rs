//! `[ingest]`: where deliveries come in.

use crate::reader::{Schema, Table};
use crate::sections::listen;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

pub(crate) const SCHEMA: Schema =
    Schema { title: "[ingest]", keys: &["listen", "max_body", "confirm_timeout"], later: &[] };

const VARIABLE: &str = "ONCEFOLD_INGEST_LISTEN";
/// RabbitMQ 4 takes messages of 16 MiB; headers need room beside the body.
const MAX_BODY_BYTES: std::ops::RangeInclusive<usize> = 1024..=15 << 20;
const CONFIRM_TIMEOUT: std::ops::RangeInclusive<Duration> = Duration::from_millis(10)..=Duration::from_secs(30);

/// Settings of intake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ingest {
    /// The address for `/in/{source}`; port 0 is any.
    pub listen: SocketAddr,
    /// Longest body that is taken, bytes.
    pub max_body: usize,
    /// How long a broker's confirm is awaited before the event goes to the spool.
    pub confirm_timeout: Duration,
}

impl Default for Ingest {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 8080)),
            max_body: 1 << 20,
            confirm_timeout: Duration::from_secs(2),
        }
    }
}

pub(crate) fn read(root: &Table<'_>) -> Ingest {
    let section = root.section("ingest", &SCHEMA);
    let default = Ingest::default();
    let setting = section.setting("listen", VARIABLE);
    Ingest {
        listen: setting.and_then(|s| listen::address(section.context, &s)).unwrap_or(default.listen),
        max_body: section.get("max_body").and_then(|n| n.size(MAX_BODY_BYTES)).unwrap_or(default.max_body),
        confirm_timeout: section
            .get("confirm_timeout")
            .and_then(|n| n.duration(CONFIRM_TIMEOUT))
            .unwrap_or(default.confirm_timeout),
    }
}
