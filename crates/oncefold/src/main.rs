//! The `oncefold` binary.
fn main() {}
