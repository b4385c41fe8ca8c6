//! Machine code: loaded in one place, and only where it is known who made it.

use crate::{
    report::holds,
    source::{is_within, shipped},
};

/// Ways to load machine code.
const LOADING: [&str; 7] = [
    "::Component::deserialize",
    "::Component::deserialize_raw",
    "::Component::deserialize_file",
    "::Module::deserialize",
    "::Module::deserialize_raw",
    "::Module::deserialize_file",
    "::Module::deserialize_open_file",
];

#[test]
fn machine_code_is_loaded_in_one_place() {
    let mut found = Vec::new();
    let mut engine = 0;
    for source in shipped() {
        for path in source.names().paths {
            if !LOADING.iter().any(|pattern| is_within(&path.what, pattern)) {
                continue;
            }
            if source.path == "host/src/sandbox/engine.rs" && path.what == "Component::deserialize" {
                engine += 1;
                continue;
            }
            found.push(format!("{}:{}: names `{}`", source.path, path.line, path.what));
        }
    }
    assert!(engine > 0, "the engine loads no machine code; correct the test");
    holds(
        "machine code is loaded in host/src/sandbox/engine.rs only, from memory",
        "compile the component with Sandbox::compile, which looks into the cache first",
        &found,
    );
}

/// Who may vouch for machine code: who just made it, and who opened a sealed entry.
#[test]
fn only_the_compiler_and_the_cache_vouch_for_machine_code() {
    let vouching = shipped()
        .into_iter()
        .filter(|source| source.path.starts_with("host/src/sandbox/") && source.path != "host/src/sandbox/engine.rs")
        .filter(|source| source.text.contains("unsafe {"))
        .map(|source| source.path)
        .collect::<Vec<_>>();
    assert_eq!(vouching, ["host/src/sandbox/cache/mod.rs", "host/src/sandbox/compile.rs"]);
}
