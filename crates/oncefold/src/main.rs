//! The `oncefold` binary: reads the command line, runs the command, turns the outcome into an exit code.

use mimalloc::MiMalloc;
use std::process::ExitCode;

/// A delivery is many short-lived allocations on threads that change: a fifth of its processor time with the system's
/// allocator, and musl's is slower still.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    oncefold::run(std::env::args_os())
}
