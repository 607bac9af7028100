//! Bad weather between a deployment and its services: proxies that can cut, stall and restore connections.

use oncefold_testkit::proxy::ChaosProxy;
use std::net::{SocketAddr, ToSocketAddrs as _};
use tokio::runtime::Runtime;

/// A proxy on loopback before a service, with the URL that leads through it.
pub struct Weather {
    runtime: Runtime,
    proxy: ChaosProxy,
    url: String,
}

impl Weather {
    /// Puts a proxy before the service of this URL.
    pub fn before(url: &str) -> Self {
        let (scheme, rest) = url.split_once("://").expect("a URL");
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (user, host) = authority.rsplit_once('@').map_or(("", authority), |(user, host)| (user, host));
        let target: SocketAddr = host.to_socket_addrs().expect("an address").next().expect("an address");
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("runtime");
        let proxy = runtime.block_on(ChaosProxy::before(target));
        let at = if user.is_empty() { "" } else { "@" };
        let url = format!("{scheme}://{user}{at}{}/{path}", proxy.address());
        Self { runtime, proxy, url }
    }

    /// The URL through the proxy.
    pub fn url(&self) -> String {
        self.url.clone()
    }

    /// Connections break, and new ones are refused or broken at once.
    pub fn cut(&self) {
        let _inside = self.runtime.enter();
        self.proxy.cut();
    }

    /// Connections stay, nothing passes: a frozen service.
    pub fn stall(&self) {
        let _inside = self.runtime.enter();
        self.proxy.stall();
    }

    /// Everything passes again.
    pub fn restore(&self) {
        let _inside = self.runtime.enter();
        self.proxy.restore();
    }
}
