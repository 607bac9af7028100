//! End-to-end tests over real processes, on both backends. `./scripts/test` starts what they need.

#![allow(clippy::disallowed_methods, missing_docs, reason = "tests are outside: they read the real clock")]

mod bad_input;
mod commands;
mod docs;
mod failures;
mod first_look;
mod flood;
mod known_clients;
mod lifecycle;
mod presets;
mod providers;
mod replays;
mod tidy;
