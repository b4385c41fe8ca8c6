//! The contract in `wit/`.

use wit_parser::{Resolve, WorldItem};

use crate::{
    report::{holds, holds_except},
    source::{everything, is_within, root},
};

/// The world of steps, and everything it imports and exports.
pub(crate) fn contract() -> Resolve {
    let mut resolve = Resolve::default();
    resolve.push_dir(root().join("wit")).unwrap();
    resolve
}

#[test]
fn bindings_are_generated_once_on_each_side() {
    let mut found = Vec::new();
    for source in everything(&["model", "wire", "supply", "crash", "steps", "host", "plane", "cli", "tests", "xtask"]) {
        for path in source.all_names().paths {
            let generates = ["wit_bindgen::generate!", "::bindgen!"];
            if generates.iter().any(|pattern| is_within(&path.what, pattern)) || path.what == "generate!" {
                found.push((source.path.clone(), format!("{}:{}: `{}`", source.path, path.line, path.what)));
            }
        }
    }
    holds_except(
        "bindings are generated once for steps, in steps/sdk, and once for the host, in its sandbox",
        "use fettle_step or fettle_host::sandbox::bindings",
        &found,
        &["steps/sdk/src/bindings.rs", "host/src/sandbox/bindings.rs"],
    );
}

#[test]
fn every_function_of_the_contract_says_what_it_does() {
    let resolve = contract();
    let mut findings = Vec::new();
    let mut functions = 0;
    for (_, interface) in resolve.interfaces.iter() {
        let name = interface.name.clone().unwrap_or_default();
        for (function, described) in &interface.functions {
            functions += 1;
            let words = described.docs.contents.as_deref().unwrap_or_default();
            let gated = !["step", "report"].contains(&name.as_str()) && !words.contains("Gate:");
            if words.trim().is_empty() {
                findings.push(format!("wit: {name}.{function} has no documentation"));
            } else if gated {
                findings.push(format!("wit: {name}.{function} does not say `Gate:`, the grant that allows it"));
            }
        }
    }
    assert!(functions > 10, "only {functions} functions were found; correct the test");
    holds(
        "every function of the contract says what it does and which grant gates it",
        "write a `///` comment above it; end it with `Gate: <field of the grant>`",
        &findings,
    );
}

#[test]
fn the_world_imports_every_interface_of_a_capability() {
    let resolve = contract();
    let (_, world) = resolve.worlds.iter().find(|(_, world)| world.name == "component").unwrap();
    let imported: Vec<String> = world
        .imports
        .values()
        .filter_map(|item| match item {
            WorldItem::Interface { id, .. } => resolve.id_of(*id),
            _ => None,
        })
        .collect();
    let findings: Vec<String> = fettle_model::grant::Capability::ALL
        .iter()
        .map(|capability| capability.interface())
        .filter(|interface| !imported.iter().any(|name| name.split('@').next() == Some(interface)))
        .map(|interface| format!("wit/step.wit: the world does not import {interface}"))
        .collect();
    holds("a step can be given every capability", "import it in the world `component`", &findings);
}
