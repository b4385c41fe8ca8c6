//! Overlays of operation types and decisions, as the plane answers them.

use std::collections::BTreeSet;

use fettle_model::overlay::{
    Level, Overlay,
    chain::{Effective, Explained, Resolved},
};
use reqwest::{Method, header};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{NewOperation, PlaneClient, PlaneError};

/// Whose overlay it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PolicyScope {
    /// The platform's.
    Global,
    /// An organisation's.
    Tenant(String),
    /// The project's that the client is for.
    Project,
}

/// An overlay.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct OperationPolicy {
    /// The operation type that it is about.
    pub operation_type: String,
    /// Whose it is.
    pub level: Level,
    /// `platform`, the organisation, or `organisation/project`.
    pub scope: String,
    /// What it says; absent when the scope says nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<Overlay>,
    /// Grows with each change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<u64>,
    /// Names this state of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub etag: Option<String>,
    /// RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updated_at: Option<String>,
    /// Who wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updated_by: Option<String>,
    /// What holds in the project; only of a project.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolved: Option<Resolved>,
}

/// Whether an operation may be, and why.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Decision {
    /// Whether it may.
    pub allowed: bool,
    /// The type that was asked for.
    pub operation_type: String,
    /// Its version.
    pub version: String,
    /// `organisation/project`.
    pub project: String,
    /// Every rule that denies.
    pub violations: Vec<BrokenRule>,
    /// The values that hold.
    pub effective: Effective,
    /// Why each has its value.
    pub keys: Vec<Explained>,
    /// The documents that took part.
    pub overlays: Vec<OverlayTaken>,
    /// The Rego policies that took part.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rego: Option<RegoTaken>,
    /// When.
    pub decided_at: String,
}

/// A rule that denies.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct BrokenRule {
    /// Its name.
    pub rule: String,
    /// Whose word it is.
    pub decided_by: BTreeSet<String>,
    /// Where in the request.
    pub pointer: String,
    /// What is wrong, and the fix.
    pub message: String,
}

/// A document that took part in a decision.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct OverlayTaken {
    /// Whose it is.
    pub level: Level,
    /// `platform`, the organisation, or `organisation/project`.
    pub scope: String,
    /// Its revision.
    pub revision: u64,
    /// Its ETag.
    pub etag: String,
    /// Its digest.
    pub digest: String,
    /// Who wrote it.
    pub updated_by: String,
}

/// Rego policies that took part in a decision.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RegoTaken {
    /// What was asked.
    pub query: String,
    /// Digest of all files.
    pub digest: String,
    /// Each file, with its digest.
    pub files: Vec<Value>,
}

impl PlaneClient {
    fn policy_path<'a>(&'a self, scope: &'a PolicyScope, rest: Option<&'a str>) -> Vec<&'a str> {
        let mut path = match scope {
            PolicyScope::Global => vec!["admin"],
            PolicyScope::Tenant(tenant) => vec!["tenants", tenant],
            PolicyScope::Project => vec!["projects", self.project()],
        };
        path.push("operation-policies");
        path.extend(rest);
        path
    }

    /// What a scope says of an operation type.
    ///
    /// # Errors
    /// When it says nothing, or the plane does not answer.
    pub async fn operation_policy(
        &self,
        scope: &PolicyScope,
        operation_type: &str,
    ) -> Result<OperationPolicy, PlaneError> {
        self.get(&self.policy_path(scope, Some(operation_type)), &[]).await
    }

    /// All that a scope says.
    ///
    /// # Errors
    /// When the plane refuses or does not answer.
    pub async fn operation_policies(&self, scope: &PolicyScope) -> Result<Vec<OperationPolicy>, PlaneError> {
        self.all(&self.policy_path(scope, None)).await
    }

    /// Writes what a scope says: in place of the state that `etag` names, or where nothing was said.
    ///
    /// # Errors
    /// When it is not in that state any more, or the plane refuses or does not answer.
    pub async fn put_operation_policy(
        &self,
        scope: &PolicyScope,
        operation_type: &str,
        etag: Option<&str>,
        overlay: &Overlay,
    ) -> Result<OperationPolicy, PlaneError> {
        let request = self.request(Method::PUT, &self.policy_path(scope, Some(operation_type))).json(overlay);
        let request = match etag {
            Some(etag) => request.header(header::IF_MATCH, etag),
            None => request.header(header::IF_NONE_MATCH, "*"),
        };
        self.answer(request).await
    }

    /// Removes what a scope says.
    ///
    /// # Errors
    /// When it says nothing or something else, or the plane refuses or does not answer.
    pub async fn delete_operation_policy(
        &self,
        scope: &PolicyScope,
        operation_type: &str,
        etag: &str,
    ) -> Result<(), PlaneError> {
        let request = self.request(Method::DELETE, &self.policy_path(scope, Some(operation_type)));
        self.accept(request.header(header::IF_MATCH, etag)).await.map(drop)
    }

    /// Whether an operation would be accepted, and why.
    ///
    /// # Errors
    /// Everything that is wrong with the request.
    pub async fn explain(&self, operation: &NewOperation) -> Result<Decision, PlaneError> {
        self.post(&self.policy_path(&PolicyScope::Project, Some("explain")), operation).await
    }
}
