//! What end-to-end tests share: deployments of real processes on either backend, a provider that signs apart from
//! the product's own code, and a client of the admin API.

#![allow(clippy::disallowed_methods, reason = "tests are outside: they wait on the real clock")]

pub mod api;
pub mod deployment;
pub mod process;
pub mod provider;
pub mod services;
pub mod wait;
pub mod weather;

pub use api::Api;
pub use deployment::{Backend, Deployment};
pub use process::Running;
pub use provider::{Provider, Reply};
pub use weather::Weather;
