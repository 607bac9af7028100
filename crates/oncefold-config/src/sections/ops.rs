//! `[ops]`: metrics and health of this process.

use crate::reader::{Schema, Table};
use crate::sections::listen;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};

pub(crate) const SCHEMA: Schema = Schema { title: "[ops]", keys: &["listen"], later: &[] };

const VARIABLE: &str = "ONCEFOLD_OPS_LISTEN";

/// Where `/metrics`, `/healthz` and `/readyz` are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpsListen {
    /// At this address; port 0 is any.
    On(SocketAddr),
    /// Nowhere.
    Off,
    /// Not stated: at [`OpsListen::DEFAULT`], or where that is taken at a free port.
    Unset,
}

impl OpsListen {
    /// The address that is tried where none is stated.
    pub const DEFAULT: SocketAddr = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 9464));
}

pub(crate) fn read(root: &Table<'_>) -> OpsListen {
    let section = root.section("ops", &SCHEMA);
    match section.setting("listen", VARIABLE) {
        None => OpsListen::Unset,
        Some(setting) if setting.text.trim() == "off" => OpsListen::Off,
        Some(setting) => listen::address(section.context, &setting).map_or(OpsListen::Unset, OpsListen::On),
    }
}
