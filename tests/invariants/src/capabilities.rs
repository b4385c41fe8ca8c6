//! One folder per capability, with three phases.

use std::collections::BTreeSet;

use fettle_model::grant::Capability;

use crate::{
    report::holds,
    source::{Source, files, folders, read, root},
};

const HOME: &str = "host/src/capabilities";

/// The public structs of a file, and the functions in its inherent `impl` blocks.
fn structs_and_functions(source: &Source) -> (BTreeSet<String>, BTreeSet<String>) {
    let mut structs = BTreeSet::new();
    let mut functions = BTreeSet::new();
    for item in &source.syntax.items {
        match item {
            syn::Item::Struct(item) => {
                structs.insert(item.ident.to_string());
            }
            syn::Item::Impl(block) if block.trait_.is_none() => {
                functions.extend(block.items.iter().filter_map(|item| match item {
                    syn::ImplItem::Fn(function) => Some(function.sig.ident.to_string()),
                    _ => None,
                }));
            }
            _ => {}
        }
    }
    (structs, functions)
}

#[test]
fn each_capability_is_one_folder_with_three_phases() {
    let list = read(&format!("{HOME}/mod.rs"));
    let linked: Vec<String> = list.names().paths.into_iter().map(|path| path.what).collect();
    let mut findings = Vec::new();
    for folder in folders(HOME) {
        let path = format!("{HOME}/{folder}/mod.rs");
        if !root().join(&path).is_file() {
            findings.push(format!("{path}: is missing"));
            continue;
        }
        if !linked.contains(&format!("wit::{folder}::{folder}::add_to_linker")) {
            findings.push(format!("{HOME}/mod.rs: `link` does not link `{folder}`"));
        }
        // Every step may report: there is no grant to configure, and each attempt makes its own.
        if folder == "report" {
            continue;
        }
        let (structs, functions) = structs_and_functions(&read(&path));
        if !structs.contains("Configured") {
            findings.push(format!("{path}: has no `Configured`, what a grant becomes for one task"));
        }
        for phase in ["new", "prepare"] {
            if !functions.contains(phase) {
                findings.push(format!("{path}: has no `{phase}`"));
            }
        }
    }
    holds(
        "a capability is one folder: `link` once, `Configured::new` per task, `prepare` per attempt",
        "give it the three phases, as its neighbours have them",
        &findings,
    );
}

#[test]
fn folders_contract_and_model_name_the_same_capabilities() {
    let mut named: BTreeSet<String> = Capability::ALL.iter().map(|capability| capability.name().to_owned()).collect();
    named.insert("report".to_owned());
    let mut findings = Vec::new();
    for (place, found) in [(HOME, folders(HOME)), ("wit/deps", folders("wit/deps"))] {
        let found: BTreeSet<String> = found.into_iter().collect();
        findings.extend(named.difference(&found).map(|name| format!("{place}: `{name}` is missing")));
        findings.extend(found.difference(&named).map(|name| format!("{place}/{name}: is in no `Capability`")));
    }
    let stray =
        files(HOME, "rs").into_iter().filter(|path| path.matches('/').count() == 3 && !path.ends_with("/mod.rs"));
    findings.extend(stray.map(|path| format!("{path}: is in no capability's folder")));
    holds(
        "model, contract and host name the same capabilities",
        "add it to fettle_model::grant::Capability, wit/deps and host/src/capabilities together",
        &findings,
    );
}

#[test]
fn nothing_is_granted_by_default() {
    let grants = fettle_model::grant::Grants::default();
    let given: Vec<String> = grants.capabilities().iter().map(|capability| format!("`{capability}`")).collect();
    holds("the default of a grant denies", "make its field an Option that is None", &given);
    let source = read(&format!("{HOME}/mod.rs"));
    for name in ["Configured", "Prepared"] {
        let derives = source.text.contains(&format!("Default)]\npub struct {name}"));
        assert!(derives, "{HOME}/mod.rs: `{name}` has no derived Default; the default must deny everything");
    }
}
