//! The admin role: the API under `/api/v1`, its authentication and audit.

pub mod present;
