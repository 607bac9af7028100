//! The migrations are embedded: build again when one is added.

#[allow(clippy::print_stdout, reason = "how a build script speaks to cargo")]
fn main() {
    println!("cargo:rerun-if-changed=../../migrations/sqlite");
}
