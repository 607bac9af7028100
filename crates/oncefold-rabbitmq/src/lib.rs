//! The queue on RabbitMQ: topology, publishing with confirms, consuming, and the supervision of both connections.
//!
//! Invariant: nothing else in the workspace knows the AMQP client, and `Ok` from a publish means that the broker said it
//! has that very message on its work queue.

mod connect;
mod consuming;
mod group;
mod grouping;
mod health;
mod lane;
mod ledger;
mod prefetch;
mod publishing;
mod queue;
mod reconnect;
mod settings;
mod settling;
mod silence;
mod subscription;
mod supervise;
mod topology;
mod wire;

pub use queue::RabbitQueue;
pub use settings::{GROUP_EVENTS_MAX, RabbitSettings};
