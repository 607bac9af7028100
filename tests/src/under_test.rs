//! The binary as tests start it.

use std::process::ExitCode;

fn main() -> ExitCode {
    oncefold::run(std::env::args_os())
}
