//! `healthcheck`: asks `/readyz` of a role on this host.

use crate::cli::Healthcheck;
use crate::client::Client;
use crate::failure::{Ended, Failure};
use crate::{output, settings};
use oncefold_config::OpsListen;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

const TIMEOUT: Duration = Duration::from_secs(5);

pub fn run(args: &Healthcheck, config: Option<&Path>) -> Result<Ended, Failure> {
    let address = match &args.address {
        Some(address) => address.clone(),
        None => match settings::load(config)?.config.ops {
            OpsListen::On(address) => reachable(address).to_string(),
            OpsListen::Unset => OpsListen::DEFAULT.to_string(),
            OpsListen::Off => return Err(Failure::config("ops.listen is \"off\": there is nothing to ask")),
        },
    };
    match Client::with_timeout(TIMEOUT).get(&format!("http://{address}/readyz"), &[]) {
        Ok(answer) if answer.status == 200 => {
            output::line(&answer.body)?;
            Ok(Ended::Done)
        }
        Ok(answer) => {
            output::line(&answer.body)?;
            Ok(Ended::Found)
        }
        Err(e) => {
            output::complain(&format_args!("{address} does not answer: {e}"));
            Ok(Ended::Found)
        }
    }
}

/// Where to ask a listener that listens everywhere.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}
