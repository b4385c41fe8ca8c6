//! `credential.mint@v1`: has a short-lived credential minted for the steps after it, which are given its handle.

use fettle_step::{Failure, credentials};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What the credential is to open.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    /// What kind of credential.
    credential_type: CredentialType,
    /// The one thing that it opens: of `oci_pull` a reference with its digest, of `s3_read` and `gcs_read`
    /// `bucket/key`, of `hf_token` `owner/name`, of `cluster_join_token` the cluster's name.
    scope: String,
}

/// The types of seed 001, 7.3.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum CredentialType {
    OciPull,
    S3Read,
    GcsRead,
    HfToken,
    ClusterJoinToken,
}

/// What later steps are given.
#[derive(Debug, Serialize, JsonSchema)]
struct Output {
    /// A handle, which means something to the host alone. No secret.
    credential: String,
    credential_type: CredentialType,
}

fettle_step::step! {
    kind: "credential.mint@v1",
    summary: "Has a short-lived credential minted for the steps after it.",
    effect: Observe,
    requests: { credentials: "has the credential minted that the input names" },
    run: run,
}

const fn name(credential_type: CredentialType) -> &'static str {
    match credential_type {
        CredentialType::OciPull => "oci_pull",
        CredentialType::S3Read => "s3_read",
        CredentialType::GcsRead => "gcs_read",
        CredentialType::HfToken => "hf_token",
        CredentialType::ClusterJoinToken => "cluster_join_token",
    }
}

fn run(input: &Input) -> Result<Output, Failure> {
    let credential = credentials::mint(name(input.credential_type), &input.scope)?;
    Ok(Output { credential, credential_type: input.credential_type })
}

#[cfg(test)]
mod tests;
