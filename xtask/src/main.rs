//! Builds.
fn main() {}
