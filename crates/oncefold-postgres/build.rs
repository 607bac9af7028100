//! A new migration file makes the binary new: `sqlx::migrate!` alone sees only changes of the files it knows.

fn main() {
    println!("cargo:rerun-if-changed=../../migrations/postgres");
}
