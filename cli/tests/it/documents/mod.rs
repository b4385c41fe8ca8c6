//! Documents that speak of the program `fettle`, held against the program.

mod reference;
mod tutorial;

use std::path::{Path, PathBuf};

/// The program under test.
const FETTLE: &str = env!("CARGO_BIN_EXE_fettle");

/// The repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().unwrap()
}
