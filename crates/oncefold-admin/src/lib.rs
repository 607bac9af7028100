//! The admin role: the API under `/api/v1`, its authentication and audit.
//!
//! Invariant: nothing but the OpenAPI document is answered without a token, and nothing is changed without an
//! operator's. Every change is made by the store together with its audit row.

mod api;
mod auth;
mod mutation;
mod params;
pub mod present;
mod problem;
mod routes;
pub mod schema;
mod server;

mod v1;

pub use api::Diagnose;
pub use auth::{AdminToken, Role, hash_token};
pub use server::{Admin, AdminError, AdminParts, AdminSettings, build};

#[cfg(test)]
mod mutation_tests;
#[cfg(test)]
mod routes_tests;
#[cfg(test)]
mod server_tests;
#[cfg(test)]
mod testing;
