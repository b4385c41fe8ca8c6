//! Roll-back.

use serde_json::{Value, json};

use super::{by_key, key, key_rule, read, reference, saying};
use crate::{
    error::{SupplyError, Verdict},
    key::PublicKey,
    kind::ArtifactKind,
    signature::Signed,
    trust::{Seen, TrustPolicy, evaluate::Accepted},
};

fn policy(keys: &[PublicKey], versions: &Value) -> TrustPolicy {
    let rules: Vec<_> = keys.iter().enumerate().map(|(index, key)| key_rule(&index.to_string(), key)).collect();
    let requirement = json!({ "anyOf": rules, "minimumMatches": keys.len(), "versions": versions });
    read(&json!({ "step": requirement })).unwrap()
}

fn version_of(key: &PublicKey, name: &str, version: &str) -> Signed {
    saying(by_key(key), &[("fettle.name", name), ("fettle.version", version)])
}

fn judge(policy: &TrustPolicy, signed: Vec<Signed>, seen: &Seen) -> Result<Accepted, SupplyError> {
    let results: Vec<_> = signed.into_iter().map(Ok).collect();
    policy.evaluate(ArtifactKind::Step, &reference("this"), &results, seen)
}

#[test]
fn what_is_below_the_minimum_is_untrusted_and_so_is_what_says_no_version() {
    let one = [key()];
    let policy = policy(&one, &json!({ "minimum": { "render": "1.4" } }));
    for (signed, expected) in [
        (version_of(&one[0], "render", "1.4"), None),
        (version_of(&one[0], "render", "1.10"), None),
        (version_of(&one[0], "render", "1.3.9"), Some("it is about version 1.3.9 of `render`, and the policy asks")),
        (version_of(&one[0], "other", "0.1"), None),
        (version_of(&one[0], "render", "new"), Some("`new` is not a version")),
        (by_key(&one[0]), Some("it says no `fettle.name`")),
        (saying(by_key(&one[0]), &[("fettle.name", "render")]), Some("it says no `fettle.version`")),
    ] {
        let result = judge(&policy, vec![signed.clone()], &Seen::new());
        match expected {
            None => assert!(result.unwrap().versions.is_empty(), "what is not asked for is not remembered"),
            Some(expected) => {
                let error = result.unwrap_err();
                assert_eq!(error.verdict(), Some(Verdict::Untrusted));
                assert!(error.to_string().contains(expected), "{error}");
            }
        }
    }
}

#[test]
fn what_is_older_than_what_was_seen_is_untrusted() {
    let one = [key()];
    let policy = policy(&one, &json!({ "neverOlder": true }));
    let seen = Seen::from([("render".to_owned(), "2.0".parse().unwrap())]);
    for (name, version, expected) in
        [("render", "2", true), ("render", "2.1", true), ("render", "1.9", false), ("other", "1", true)]
    {
        let result = judge(&policy, vec![version_of(&one[0], name, version)], &seen);
        assert_eq!(result.is_ok(), expected, "{name} {version}");
        if let Ok(accepted) = result {
            assert_eq!(accepted.versions, [(name.to_owned(), version.parse().unwrap())]);
            assert!(!accepted.is_outdated(&seen));
            assert!(accepted.is_outdated(&Seen::from([(name.to_owned(), "3".parse().unwrap())])));
        }
    }
}

#[test]
fn a_new_version_said_by_one_does_not_lift_an_old_one_said_by_another() {
    let two = [key(), key()];
    let policy = policy(&two, &json!({ "minimum": { "render": "2" } }));
    let new = |index: usize| version_of(&two[index], "render", "2");
    let old = |index: usize| version_of(&two[index], "render", "1");
    assert!(judge(&policy, vec![new(0), new(1)], &Seen::new()).is_ok());
    assert!(judge(&policy, vec![new(0), old(1)], &Seen::new()).is_err());
    assert!(judge(&policy, vec![old(0), new(0), old(1), new(1)], &Seen::new()).is_ok(), "old signatures do no harm");
}
