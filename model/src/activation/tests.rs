use super::*;
use crate::document;

fn digest(name: &str) -> Digest {
    Digest::of(name.as_bytes())
}

fn reference(name: &str) -> Reference {
    format!("r.example:1/policy@{}", digest(name)).parse().unwrap()
}

fn activation(revision: u64, bundles: &[&str], rolls_back: bool) -> PolicyActivation {
    let bundles = bundles.iter().map(|name| reference(name)).collect();
    PolicyActivation { revision, bundles, nodes: None, rolls_back }
}

/// Tells a node of one activation after the other; answers what counts at the end, and how each was taken.
fn told(all: &[PolicyActivation]) -> (Option<ActivePolicies>, Vec<&'static str>) {
    let mut active = None;
    let mut taken = Vec::new();
    for document in all {
        let name = reference(&serde_json::to_string(document).unwrap());
        match ActivePolicies::after(active.as_ref(), &name, document, "node-1") {
            Ok(next) => {
                taken.push(if active.as_ref() == Some(&next) { "same" } else { "active" });
                active = Some(next);
            }
            Err(refusal) => taken.push(refusal.code()),
        }
    }
    (active, taken)
}

#[test]
fn revisions_only_grow_and_what_was_replaced_returns_only_when_that_was_signed() {
    let (one, two) = (activation(1, &["a"], false), activation(2, &["b"], false));
    let older = "policy.older-activation";
    for (all, taken, counts) in [
        (vec![one.clone()], vec!["active"], &["a"][..]),
        (vec![one.clone(), one.clone()], vec!["active", "same"], &["a"]),
        (vec![one.clone(), two.clone()], vec!["active", "active"], &["b"]),
        (vec![one.clone(), two.clone(), one.clone()], vec!["active", "active", older], &["b"]),
        (vec![two.clone(), one.clone()], vec!["active", older], &["b"]),
        (vec![two.clone(), activation(2, &["c"], true)], vec!["active", older], &["b"]),
        (
            vec![one.clone(), two.clone(), activation(3, &["a"], false)],
            vec!["active", "active", "policy.unsigned-roll-back"],
            &["b"],
        ),
        (vec![one.clone(), two.clone(), activation(3, &["a"], true)], vec!["active"; 3], &["a"]),
        // What stays was not replaced, and a node that never had it does not know better.
        (vec![one, activation(2, &["a", "b"], false), activation(3, &["a"], false)], vec!["active"; 3], &["a"]),
        (vec![two, activation(7, &["a"], false)], vec!["active"; 2], &["a"]),
    ] {
        let (active, found) = told(&all);
        assert_eq!(found, taken, "{all:?}");
        let counts: BTreeSet<Digest> = counts.iter().map(|name| digest(name)).collect();
        assert_eq!(active.unwrap().bundles, counts, "{all:?}");
    }
}

#[test]
fn what_was_rolled_back_from_is_replaced_itself() {
    let back = [activation(1, &["a"], false), activation(2, &["b"], false), activation(3, &["a"], true)];
    let (active, _) = told(&back);
    let active = active.unwrap();
    assert_eq!(active.replaced, BTreeSet::from([digest("b")]));
    let again = activation(4, &["b"], false);
    let refusal = ActivePolicies::after(Some(&active), &reference("again"), &again, "node-1").unwrap_err();
    assert!(refusal.to_string().contains("rolls_back: true"), "{refusal}");
}

#[test]
fn an_activation_for_other_nodes_is_refused_before_anything_else() {
    let mut document = activation(9, &["a"], false);
    document.nodes = Some(BTreeSet::from(["node-2".to_owned()]));
    let refusal = ActivePolicies::after(None, &reference("x"), &document, "node-1").unwrap_err();
    assert_eq!(refusal.code(), "policy.other-nodes");
    assert!(refusal.to_string().ends_with("is not for node `node-1`; it names node-2"), "{refusal}");
    assert!(ActivePolicies::after(None, &reference("x"), &document, "node-2").is_ok());
}

#[test]
fn documents_are_checked_with_their_places() {
    let (a, b) = (reference("a"), reference("b"));
    for (text, pointer) in [
        (format!("{{revision: 0, bundles: ['{a}']}}"), "/revision"),
        ("{revision: 1, bundles: []}".to_owned(), "/bundles"),
        (format!("{{revision: 1, bundles: ['{a}', '{b}', '{a}']}}"), "/bundles/2"),
        (format!("{{revision: 1, bundles: ['{a}'], nodes: []}}"), "/nodes"),
    ] {
        let document: PolicyActivation = document::read(&text).unwrap();
        let found = document.check().unwrap_err();
        assert_eq!(found.0.iter().map(|one| one.pointer.as_str()).collect::<Vec<_>>(), [pointer]);
    }
    let sound = format!("{{revision: 1, bundles: ['{a}'], nodes: [node-1], rolls_back: true}}");
    document::read::<PolicyActivation>(&sound).unwrap().check().unwrap();
    assert!(document::read::<PolicyActivation>("{revision: 1, bundles: [], rollback: true}").is_err());
}

#[test]
fn the_compiled_bundle_allows_to_be_told_and_nothing_else() {
    let bundle = recovery_bundle();
    bundle.check().unwrap();
    let entries: Vec<String> = bundle.ceiling.entries().iter().map(ToString::to_string).collect();
    assert_eq!(entries, ["policy.activate: true"]);
    assert!(bundle.profiles.is_empty() && bundle.roots.is_empty() && bundle.egress.is_empty());
}
