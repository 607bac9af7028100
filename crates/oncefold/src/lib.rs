//! The binary's library: commands, the wiring of backends in one place, and the life of the process.
//!
//! Invariant: this is the only crate that reads the wall clock, the environment, signals and the OS random source.

pub mod backends;
pub mod cli;
pub mod client;
pub mod clock;
pub mod commands;
pub mod demo;
pub mod diagnosis;
pub mod failure;
pub mod intake;
mod ksuid;
pub mod lifecycle;
pub mod ops;
pub mod output;
pub mod reload;
pub mod roles;
pub mod settings;

use clap::Parser as _;
use std::ffi::OsString;
use std::process::ExitCode;

/// Runs one command line.
pub fn run(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let cli = match cli::Cli::try_parse_from(args) {
        Ok(cli) => cli,
        Err(e) => {
            let usage = e.use_stderr();
            let _ = e.print();
            return ExitCode::from(if usage { 2 } else { 0 });
        }
    };
    match commands::dispatch(cli) {
        Ok(found) => ExitCode::from(u8::from(!found.is_done())),
        Err(failure) => {
            output::complain(&failure);
            ExitCode::from(failure.exit_code())
        }
    }
}
