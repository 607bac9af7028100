//! The queue against a real broker (`scripts/services start`), a virtual host per test.

mod broker;
mod conformance;
mod consuming;
mod grouping;
mod outages;
mod publishing;
mod suffering;
