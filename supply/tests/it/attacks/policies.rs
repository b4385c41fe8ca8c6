//! Policies that allow more than they seem to, and signers who are not who they seem to be.

use std::collections::BTreeMap;

use fettle_model::{digest::Digest, reference::Reference};
use fettle_supply::{
    ArtifactKind, Signed, Signer, SigningKey, Verdict, Workflow, mutation::Protection, testing::judge,
};
use serde_json::{Value, json};

use super::world::{Outcome, Refusal, attack_on, read, rule};

const ISSUER: &str = "https://token.actions.githubusercontent.com";
const UNTRUSTED: Refusal = Refusal::Verdict(Verdict::Untrusted);

fn artifact() -> Reference {
    format!("registry.example.com/steps/render@{}", Digest::of(b"evil")).parse().unwrap()
}

fn stranger() -> Signed {
    workflow("https://github.com/stranger/steps")
}

fn workflow(repository: &str) -> Signed {
    let (owner, _) = repository.rsplit_once('/').unwrap();
    let signer = Signer::Identity {
        issuer: ISSUER.to_owned(),
        subject: format!("{repository}/.github/workflows/release.yml@refs/tags/v1"),
        workflow: Some(Workflow {
            owner: Some(owner.to_owned()),
            repository: repository.to_owned(),
            reference: Some("refs/tags/v1".to_owned()),
        }),
    };
    Signed { signer, annotations: BTreeMap::new(), integrated_time: None }
}

/// Whether an artifact with these signatures passes a policy for steps.
fn passes(requirement: &Value, signatures: Vec<Signed>) -> Outcome {
    let policy = read(&json!({ "step": requirement }))?;
    Ok(judge(&policy, ArtifactKind::Step, &artifact(), signatures).map(drop)?)
}

fn prefix(prefix: &str) -> Value {
    json!({ "kind": "keyless", "name": "org", "issuer": ISSUER, "subject": { "urlPrefix": prefix } })
}

#[tokio::test]
async fn an_empty_list_of_constraints() {
    attack_on(Protection::NoEmptyLists, Refusal::Policy, || passes(&json!({ "anyOf": [] }), vec![stranger()])).await;
}

#[tokio::test]
async fn an_empty_all_of() {
    attack_on(Protection::NoEmptyLists, Refusal::Policy, || passes(&json!({ "allOf": [] }), vec![stranger()])).await;
}

#[tokio::test]
async fn a_minimum_of_zero_matches() {
    let key = SigningKey::generate().unwrap();
    let requirement = json!({ "anyOf": [rule("team", key.public())], "minimumMatches": 0 });
    attack_on(Protection::NoZeroThreshold, Refusal::Policy, || passes(&requirement, vec![stranger()])).await;
}

#[tokio::test]
async fn a_prefix_without_its_slash() {
    let evil = || vec![workflow("https://github.com/acme-evil/steps")];
    let requirement = json!({ "anyOf": [prefix("https://github.com/acme")] });
    attack_on(Protection::PrefixEndsWithSlash, Refusal::Policy, || passes(&requirement, evil())).await;
    assert_eq!(passes(&json!({ "anyOf": [prefix("https://github.com/acme/")] }), evil()), Err(UNTRUSTED));
}

#[tokio::test]
async fn a_pattern_that_is_not_anchored() {
    let mut evil = stranger();
    evil.signer = Signer::Identity {
        issuer: ISSUER.to_owned(),
        subject: "https://evil.example.com/?https://github.com/acme/steps".to_owned(),
        workflow: None,
    };
    let requirement = json!({ "anyOf": [prefix("https://github.com/acme/")] });
    attack_on(Protection::PrefixIsAnchored, UNTRUSTED, || passes(&requirement, vec![evil.clone()])).await;
}

#[tokio::test]
async fn one_signer_counted_twice() {
    let ci = json!({
        "kind": "ciWorkflow", "name": "ci", "issuer": ISSUER, "owner": "https://github.com/acme",
        "repository": "https://github.com/acme/steps", "ref": { "prefix": "refs/tags/" },
    });
    let requirement = json!({ "anyOf": [ci, prefix("https://github.com/acme/")], "minimumMatches": 2 });
    let twice = || vec![workflow("https://github.com/acme/steps"), workflow("https://github.com/acme/steps")];
    attack_on(Protection::SignersAreDistinct, UNTRUSTED, || passes(&requirement, twice())).await;
}

#[tokio::test]
async fn one_signer_under_two_names() {
    let key = SigningKey::generate().unwrap();
    let requirement = json!({ "anyOf": [rule("a", key.public()), rule("b", key.public())], "minimumMatches": 2 });
    assert_eq!(passes(&requirement, Vec::new()), Err(Refusal::Policy));
}
