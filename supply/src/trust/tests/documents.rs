//! What a trust policy may and may not say.

use serde_json::{Value, json};

use super::{ISSUER, key, key_rule, keyless_rule, read, workflow_rule};
use crate::{
    kind::ArtifactKind,
    trust::{TrustPolicy, TrustPolicyError},
};

#[test]
fn a_policy_that_could_be_read_as_allow_all_is_refused() {
    let (a, b) = (key(), key());
    let one = key_rule("a", &a);
    let other_name = key_rule("b", &a);
    let same_name = key_rule("a", &b);
    let step = |requirement: Value| json!({ "step": requirement });
    let any_of = |rule: Value| step(json!({ "anyOf": [rule] }));
    let with = |rule: &Value, name: &str, value: Value| {
        let mut rule = rule.clone();
        rule[name] = value;
        rule
    };
    let keyless = keyless_rule("k", &json!({ "equals": "a@example.com" }));
    for (policy, expected) in [
        (json!({}), "names no signer for any kind; add at least one of `step`, `catalog`, `definition`"),
        (json!({ "deny": [] }), "names no signer for any kind"),
        (step(json!({ "anyOf": [] })), "an empty `step/anyOf`; name a signer, or leave it out"),
        (step(json!({ "allOf": [] })), "an empty `step/allOf`"),
        (step(json!({ "allOf": [one], "anyOf": [] })), "an empty `step/anyOf`"),
        (step(json!({})), "names no rule for `step`; add `allOf` or `anyOf`"),
        (step(json!(null)), "/step: invalid type: null"),
        (step(json!({ "anyOf": [one], "allOf": null })), "/step/allOf: invalid type: null"),
        (step(json!({ "anyOf": [one], "minimumMatches": null })), "/step/minimumMatches: invalid type: null"),
        (step(json!({ "anyOf": [one], "minimumMatches": 0 })), "wants 0 matches of the 1 in `step/anyOf`; write a"),
        (step(json!({ "anyOf": [one], "minimumMatches": 2 })), "wants 2 matches of the 1"),
        (step(json!({ "anyOf": [one], "minimumMatches": -1 })), "/step/minimumMatches: invalid value"),
        (step(json!({ "allOf": [one], "minimumMatches": 1 })), "no `anyOf` that it counts in"),
        (step(json!({ "anyOf": [one], "minimum_matches": 1 })), "expected one of `allOf`, `anyOf`, `minimumMatches`"),
        (json!({ "steps": { "anyOf": [one] } }), "unknown field `steps`, expected one of `revision`, `step`"),
        (json!({ "revision": 0, "step": { "anyOf": [one] } }), "/revision: invalid value"),
        (step(json!({ "anyOf": [one, other_name] })), "already as `a`; name each signer once"),
        (step(json!({ "anyOf": [one], "allOf": [other_name] })), "already as"),
        (step(json!({ "anyOf": [one, same_name] })), "two rules `a`"),
        (any_of(with(&one, "key", json!(""))), "public key cannot be read"),
        (any_of(with(&one, "name", json!(" "))), "wrong at `step/anyOf/0`: `name` is empty"),
        (any_of(with(&one, "annotations", json!({}))), "`annotations` is empty"),
        (any_of(with(&one, "annotations", json!(null))), "invalid type: null"),
        (any_of(with(&one, "anotations", json!({}))), "unknown field `anotations`"),
        (any_of(json!({ "kind": "anyone" })), "expected one of `publicKey`, `keyless`, `ciWorkflow`"),
        (any_of(with(&keyless, "issuer", json!(""))), "is not an https URL"),
        (any_of(with(&keyless, "issuer", json!("http://example.com"))), "is not an https URL"),
        (any_of(with(&keyless, "subject", json!("a@example.com"))), "/step/anyOf/0"),
        (any_of(with(&keyless, "subject", json!({ "regex": ".*" }))), "expected `equals` or `urlPrefix`"),
        (any_of(with(&keyless, "subject", json!({ "equals": "" }))), "`subject` is empty"),
        (any_of(with(&keyless, "subject", json!({ "equals": "a", "urlPrefix": "b" }))), "/step/anyOf/0"),
        (
            any_of(with(&keyless, "subject", json!({ "urlPrefix": "https://github.com/acme" }))),
            "write `https://github.com/acme/`",
        ),
        (any_of(with(&workflow_rule("w"), "ref", json!({ "prefix": "refs/tags" }))), "does not end with a slash"),
        (any_of(with(&workflow_rule("w"), "ref", json!({ "equals": "main" }))), "not a whole one"),
        (any_of(with(&workflow_rule("w"), "owner", json!("https://github.com/acm"))), "is not below its owner"),
        (step(json!({ "anyOf": [one], "versions": {} })), "an empty `step/versions`"),
        (step(json!({ "anyOf": [one], "versions": { "minimum": {} } })), "an empty `step/versions/minimum`"),
        (step(json!({ "anyOf": [one], "versions": { "minimum": { "a": "v1" } } })), "`v1` is not a version"),
        (json!({ "step": { "anyOf": [one] }, "deny": [] }), "an empty `deny`"),
        (
            json!({ "step": { "anyOf": [one] }, "deny": [{ "digest": "sha256:00", "reason": "x" }] }),
            "/deny/0/digest: `sha256:00` is not a digest",
        ),
    ] {
        let shown = read(&policy).map(|policy| format!("{policy:?}")).unwrap_err().to_string();
        assert!(shown.contains(expected), "{policy}\n{shown}\nlacks: {expected}");
    }
    assert!(matches!(TrustPolicy::any_of([]), Err(TrustPolicyError::EmptyList(place, _)) if place == "step/anyOf"));
}

#[test]
fn everything_a_policy_can_say_survives_being_written() {
    let keys: Vec<_> = (0..3).map(|_| key()).collect();
    let policy = json!({
        "revision": 7,
        "step": {
            "allOf": [workflow_rule("ci")],
            "anyOf": [key_rule("a", &keys[0]), keyless_rule("k", &json!({ "urlPrefix": "https://github.com/acme/" }))],
            "minimumMatches": 2,
            "versions": { "minimum": { "file.render@v1": "1.4" }, "neverOlder": true },
        },
        "trust_policy": { "anyOf": [key_rule("a", &keys[1]), key_rule("b", &keys[2])], "minimumMatches": 2 },
        "deny": [{ "digest": fettle_model::digest::Digest::of(b"bad"), "reason": "CVE" }],
    });
    let read_once = read(&policy).unwrap();
    let written = serde_json::to_value(&read_once).unwrap();
    let again = TrustPolicy::read(&written.to_string()).unwrap();
    assert_eq!(read_once, again);
    assert_eq!(read_once.digest(), again.digest());
    assert_eq!(read_once.revision(), 7);
    let words = read_once.in_words();
    let step = &words[ArtifactKind::Step.name()];
    for part in
        ["all of `ci`", "2 of `a`", "anyone below `https://github.com/acme/`", ISSUER, "`file.render@v1` from 1.4"]
    {
        assert!(step.contains(part), "{step}");
    }
    assert!(!words.contains_key("catalog"));
}

#[test]
fn the_digest_of_a_policy_depends_on_everything_in_it() {
    let (a, b) = (key(), key());
    let base = json!({ "revision": 1, "step": { "anyOf": [key_rule("a", &a), key_rule("b", &b)] } });
    let digest = |policy: &Value| read(policy).unwrap().digest();
    let mut digests = vec![digest(&base)];
    for (pointer, member, value) in [
        ("", "revision", json!(2)),
        ("/step", "minimumMatches", json!(2)),
        ("/step/anyOf/0", "annotations", json!({ "a": "b" })),
        ("/step", "versions", json!({ "neverOlder": true })),
        ("", "catalog", json!({ "anyOf": [key_rule("a", &a)] })),
        ("", "deny", json!([{ "digest": fettle_model::digest::Digest::of(b"x"), "reason": "y" }])),
    ] {
        let mut policy = base.clone();
        policy.pointer_mut(pointer).unwrap()[member] = value;
        digests.push(digest(&policy));
    }
    digests.sort();
    digests.dedup();
    assert_eq!(digests.len(), 7);
}

#[test]
fn the_examples_are_policies() {
    let directory = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../policies/trust");
    let mut read = 0;
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let policy = TrustPolicy::read(&std::fs::read_to_string(&path).unwrap());
        let policy = policy.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert_eq!(policy.in_words().len(), ArtifactKind::ALL.len(), "{} leaves a kind out", path.display());
        read += 1;
    }
    assert_eq!(read, 2);
}
