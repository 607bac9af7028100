//! The intake role over real sockets: the contract's table, input that means harm, durability, stopping.

mod contract;
mod durability;
#[allow(dead_code, reason = "shared with the unit tests; each side uses a part")]
mod fakes;
mod handshakes;
mod harness;
mod hostile;
mod logs;
mod providers;
mod rejected;
mod stopping;
