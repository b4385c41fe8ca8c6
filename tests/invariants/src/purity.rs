//! What may not be reached from where.

use crate::{
    report::holds,
    source::{is_within, product, steps},
};

/// Ways out of a program. Paths are compared by whole names.
const OUTSIDE: [&str; 13] = [
    "std::fs",
    "std::net",
    "std::process",
    "std::env",
    "std::thread",
    "std::time::SystemTime",
    "std::time::Instant",
    "std::os",
    "std::io::stdin",
    "std::io::stdout",
    "std::io::stderr",
    "::SystemTime::now",
    "::Instant::now",
];

/// Macros that write to standard output or read the environment of the build.
const OUTSIDE_MACROS: [&str; 5] = ["print!", "println!", "eprint!", "eprintln!", "dbg!"];

fn reaching(below: &[impl AsRef<str>]) -> Vec<String> {
    let mut findings = Vec::new();
    for source in product(below) {
        for path in source.names().paths {
            let is_outside = OUTSIDE.iter().any(|outside| is_within(&path.what, outside));
            if is_outside || OUTSIDE_MACROS.contains(&path.what.as_str()) {
                findings.push(format!("{}:{}: names `{}`", source.path, path.line, path.what));
            }
        }
    }
    findings
}

#[test]
fn the_model_reaches_nothing() {
    holds(
        "`model` is pure: the same arguments always give the same answer",
        "take what you need as a parameter, and let host, plane or cli reach for it",
        &reaching(&["model/src"]),
    );
}

#[test]
fn steps_reach_the_node_only_through_wit() {
    let directories: Vec<String> = steps().iter().map(|step| format!("steps/{step}/src")).collect();
    holds(
        "a step reaches the node through the capabilities of `wit` only",
        "use fettle_step::{files, exec, transfer, facts, gpu, report}; if none of them does it, the contract needs a function",
        &reaching(&directories),
    );
}
