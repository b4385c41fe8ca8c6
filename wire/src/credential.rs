//! How a host asks its plane for credentials, and what it is answered: JSON over the connection of its certificate.
//!
//! `POST /internal/v1/nodes/{node_id}/tasks/{task_id}/credentials/mint` takes a [`MintRequest`] and answers a
//! [`MintResponse`]; `POST /internal/v1/nodes/{node_id}/tasks/{task_id}/registry-credential` takes a
//! [`RegistryCredentialRequest`] and answers a [`RegistryCredentialResponse`] (seed 001, 7.2 and 7.3). Anything else is
//! answered with a problem document (RFC 9457) whose `code` is stable.

use std::collections::BTreeMap;

use fettle_model::credential::CredentialType;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

/// The most bytes of a request.
pub const LARGEST_REQUEST: usize = 16 << 10;

/// The most bytes of an answer.
pub const LARGEST_RESPONSE: usize = 128 << 10;

/// A credential is wanted for a step of a task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MintRequest {
    /// Under which lease the node holds the task.
    pub epoch: u64,
    /// The task's operation.
    pub operation_id: String,
    /// The step that has it minted.
    pub step_id: String,
    /// What kind.
    pub credential_type: CredentialType,
    /// The one thing that it is to open.
    pub scope: String,
}

/// A credential.
#[derive(Serialize, Deserialize)]
pub struct MintResponse {
    /// What kind.
    pub credential_type: CredentialType,
    /// The one thing that it opens.
    pub scope: String,
    /// When it ends, by the clock of the plane.
    pub expires_at: Timestamp,
    /// The same from now.
    pub expires_in_seconds: u64,
    /// What it consists of.
    pub material: BTreeMap<String, Zeroizing<String>>,
}

/// A credential that pulls an artifact is wanted for a step of a task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RegistryCredentialRequest {
    /// Under which lease the node holds the task.
    pub epoch: u64,
    /// The task's operation.
    pub operation_id: String,
    /// The step that has it minted.
    pub step_id: String,
    /// The artifact: `host:port/repository@sha256:<hex>`.
    pub reference: String,
}

/// A credential that pulls one artifact.
#[derive(Serialize, Deserialize)]
pub struct RegistryCredentialResponse {
    /// The artifact.
    pub reference: String,
    /// When it ends, by the clock of the plane.
    pub expires_at: Timestamp,
    /// The same from now.
    pub expires_in_seconds: u64,
    /// What is shown to the registry, as `Authorization: Bearer`.
    pub token: Zeroizing<String>,
}

/// What of a problem document a host looks at.
#[derive(Debug, Deserialize)]
pub struct Problem {
    /// Stable and dotted.
    pub code: String,
    /// What is wrong, and the fix.
    pub detail: String,
}

/// Where a task's credentials are minted.
#[must_use]
pub fn mint_path(node_id: &str, task_id: &str) -> String {
    format!("/internal/v1/nodes/{node_id}/tasks/{task_id}/credentials/mint")
}

/// Where the credentials with which a task pulls artifacts are minted.
#[must_use]
pub fn registry_path(node_id: &str, task_id: &str) -> String {
    format!("/internal/v1/nodes/{node_id}/tasks/{task_id}/registry-credential")
}
