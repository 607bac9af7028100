//! The `oncefold` binary: reads the command line, runs the command, turns the outcome into an exit code.

use std::process::ExitCode;

fn main() -> ExitCode {
    oncefold::run(std::env::args_os())
}
