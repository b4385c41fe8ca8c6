//! Components built by hand that import what they were not granted. One process each: some take a
//! protection out.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::common::{self, TestNode};
use fettle_host::{
    mutation::{Protection, without},
    sandbox::LoadError,
};
use fettle_model::grant::{Capability, Grants};

/// Protections are out for the whole process, so tests of one process take turns.
static TURN: Mutex<()> = Mutex::new(());

fn turn() -> MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A grant of everything but one capability, each naming nothing.
fn all_but(capability: Option<Capability>) -> Grants {
    let some = Capability::ALL.into_iter().filter(|one| Some(*one) != capability);
    let grants: serde_json::Map<String, serde_json::Value> =
        some.map(|one| (one.to_string(), serde_json::json!({}))).collect();
    serde_json::from_value(grants.into()).unwrap()
}

/// Links a component that has these imports; why it was refused, or nothing.
async fn link(imports: &str, grants: &Grants) -> Result<(), String> {
    let node = TestNode::new();
    let component = wat::parse_str(format!("(component {imports})")).unwrap();
    let compiled = node.sandbox.compile(component.into()).await.map_err(|error| error.to_string())?;
    match node.sandbox.link(&compiled, grants) {
        Ok(_) => Ok(()),
        Err(error @ LoadError::Refused { .. }) => Err(error.to_string()),
        Err(error) => panic!("{error}"),
    }
}

fn import(name: &str) -> String {
    format!("(import \"{name}\" (instance (export \"run\" (func))))")
}

#[tokio::test]
#[expect(clippy::await_holding_lock, reason = "tests take turns")]
async fn each_capability_is_imported_only_when_it_is_granted() {
    let _turn = turn();
    for capability in Capability::ALL {
        let component = import(&format!("{}@0.1.0", capability.interface()));
        let refused = link(&component, &all_but(Some(capability))).await.unwrap_err();
        assert!(refused.contains(capability.interface()) && refused.contains("not granted"), "{capability}: {refused}");
        // With its grant it gets as far as the linker, which finds that it has no such function.
        let refused = link(&component, &all_but(None)).await.unwrap_err();
        assert!(!refused.contains("not granted"), "{capability}: {refused}");
    }
}

/// Built components with the capabilities that they import.
const BUILT: [(&str, &[Capability]); 2] = [
    ("testing", &[Capability::Exec, Capability::Files, Capability::Facts, Capability::Gpu]),
    ("artifact-pull-oci", &[Capability::Transfer]),
];

#[tokio::test]
#[expect(clippy::await_holding_lock, reason = "tests take turns")]
async fn an_import_without_its_grant_is_kept_out_twice() {
    let _turn = turn();
    let node = TestNode::new();
    for (name, capabilities) in BUILT {
        let compiled = node.sandbox.compile(common::component(name).into()).await.unwrap();
        for capability in capabilities {
            let grants = all_but(Some(*capability));
            let refused = || node.sandbox.link(&compiled, &grants).err().map(|error| error.to_string());
            assert!(refused().unwrap().contains("not granted"), "{capability}");
            // Either protection alone holds: what was not linked cannot be imported, whatever was checked.
            let checks = without(Protection::ImportsAreGranted);
            assert!(refused().unwrap().contains(capability.interface()), "{capability}: {:?}", refused());
            // Without both, the component is linked with what it was not granted.
            let links = without(Protection::OnlyGrantsAreLinked);
            assert_eq!(refused(), None, "{capability}");
            drop(checks);
            assert!(refused().unwrap().contains("not granted"), "{capability}");
            drop(links);
        }
    }
}

#[tokio::test]
#[expect(clippy::await_holding_lock, reason = "tests take turns")]
async fn what_only_looks_like_a_granted_interface_is_refused() {
    let _turn = turn();
    for name in [
        "fettle:exec/exec@9.9.9",
        "fettle:exec/exec",
        "fettle:exec/shell@0.1.0",
        "fettle:exec-evil/exec@0.1.0",
        "evil:exec/exec@0.1.0",
        "wasi:sockets/raw@0.2.3",
        "wasi:http/outgoing-handler@0.2.3",
        "wasi:filesystem/preopens@9.9.9",
        "exec",
    ] {
        let refused = link(&import(name), &all_but(None)).await.unwrap_err();
        assert!(refused.contains("is refused"), "{name}: {refused}");
    }
    let function = "(import \"fettle:exec/exec@0.1.0\" (func (param \"program\" string)))";
    assert!(link(function, &all_but(None)).await.is_err(), "a function of that name is no interface");
    let wrong = "(import \"fettle:gpu/gpu@0.1.0\" (instance (export \"reset\" (func))))";
    assert!(link(wrong, &all_but(None)).await.is_err(), "the interface has no such function");
}

#[tokio::test]
#[expect(clippy::await_holding_lock, reason = "tests take turns")]
async fn inert_interfaces_need_no_grant_and_are_named_so() {
    let _turn = turn();
    let component = "(import \"wasi:clocks/wall-clock@0.2.3\" (instance))";
    assert_eq!(link(component, &Grants::default()).await, Ok(()));
    let node = TestNode::new();
    let component = wat::parse_str(format!("(component {component})")).unwrap();
    let compiled = node.sandbox.compile(component.into()).await.unwrap();
    assert_eq!(compiled.imports().inert, ["wasi:clocks/wall-clock@0.2.3".to_owned()].into());
    assert!(compiled.imports().capabilities.is_empty() && compiled.imports().unknown.is_empty());
}
