//! Laws of trust policies.

mod documents;
mod evidence;
mod files;
mod verdicts;
mod versions;

use std::collections::BTreeMap;

use fettle_model::{digest::Digest, reference::Reference};
use serde_json::{Value, json};

use super::{TrustPolicy, TrustPolicyError};
use crate::{
    key::{PublicKey, SigningKey},
    signature::{Signed, Signer, Workflow},
};

const ISSUER: &str = "https://token.actions.githubusercontent.com";

fn reference(content: &str) -> Reference {
    format!("127.0.0.1:5000/steps/render@{}", Digest::of(content.as_bytes())).parse().unwrap()
}

fn read(policy: &Value) -> Result<TrustPolicy, TrustPolicyError> {
    TrustPolicy::read(&policy.to_string())
}

fn key() -> PublicKey {
    SigningKey::generate().unwrap().public().clone()
}

fn key_rule(name: &str, key: &PublicKey) -> Value {
    json!({ "kind": "publicKey", "name": name, "key": key })
}

fn keyless_rule(name: &str, subject: &Value) -> Value {
    json!({ "kind": "keyless", "name": name, "issuer": ISSUER, "subject": subject })
}

fn workflow_rule(name: &str) -> Value {
    json!({
        "kind": "ciWorkflow", "name": name, "issuer": ISSUER, "owner": "https://github.com/acme",
        "repository": "https://github.com/acme/steps", "ref": { "prefix": "refs/tags/" },
    })
}

fn signed(signer: Signer) -> Signed {
    Signed { signer, annotations: BTreeMap::new(), integrated_time: None }
}

fn by_key(key: &PublicKey) -> Signed {
    signed(Signer::Key(key.id()))
}

fn by_workflow(repository: &str, reference: &str) -> Signed {
    let subject = format!("{repository}/.github/workflows/release.yml@{reference}");
    let owner = repository.rsplit_once('/').map(|(owner, _)| owner.to_owned());
    let workflow = Some(Workflow { owner, repository: repository.to_owned(), reference: Some(reference.to_owned()) });
    signed(Signer::Identity { issuer: ISSUER.to_owned(), subject, workflow })
}

fn saying(mut signed: Signed, annotations: &[(&str, &str)]) -> Signed {
    signed.annotations.extend(annotations.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
    signed
}
