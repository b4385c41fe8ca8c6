//! Ways round a signature check. Each attack runs twice: with the protection that keeps it out, and
//! with that protection taken out, when it must get through. `every_protection_has_an_attack` keeps the
//! list whole.

mod policies;
mod rotation;
mod signatures;
mod storage;
mod world;

use std::path::Path;

use fettle_supply::mutation::Protection;

use crate::support;

/// The text of every test file of this crate.
fn tests(directory: &Path) -> String {
    let mut text = String::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            text.push_str(&tests(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            text.push_str(&std::fs::read_to_string(path).unwrap());
        }
    }
    text
}

#[test]
fn every_protection_has_an_attack() {
    let text = tests(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests"));
    let missing: Vec<_> = Protection::ALL
        .iter()
        .map(|one| format!("{one:?}"))
        .filter(|one| !text.contains(&["Protection", one].join("::")))
        .collect();
    assert!(missing.is_empty(), "no attack takes out {missing:?}");
}
