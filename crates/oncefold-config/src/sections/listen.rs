//! Addresses to listen at.

use crate::reader::{Context, Setting};
use std::net::SocketAddr;

/// An address with a port; port 0 lets the system choose one.
pub(crate) fn address(context: &Context<'_>, setting: &Setting<'_>) -> Option<SocketAddr> {
    let text = setting.text.trim();
    if let Ok(address) = text.parse() {
        return Some(address);
    }
    let mend = match text.rsplit_once(':') {
        Some(("localhost", port)) if port.parse::<u16>().is_ok() => format!("write \"127.0.0.1:{port}\""),
        Some(("" | "*", port)) if port.parse::<u16>().is_ok() => {
            format!("write \"0.0.0.0:{port}\" for every interface, \"127.0.0.1:{port}\" for this host")
        }
        _ => "write an IP address and a port, such as \"127.0.0.1:8080\" or \"[::1]:8080\"; port 0 is any".to_owned(),
    };
    context.problem(&setting.place, "is not an address to listen at", mend);
    None
}
