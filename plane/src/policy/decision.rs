//! What was decided, and everything that took part.

use fettle_model::{
    overlay::chain::{Effective, Explained},
    violation::{Violation, Violations},
};
use fettle_store::policy::PolicyDocument;
use serde::Serialize;
use utoipa::ToSchema;

use super::EffectiveLimits;

/// Whether an operation may be, and why.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct Decision {
    /// Whether it may.
    pub(crate) allowed: bool,
    /// RFC 3339.
    pub(crate) decided_at: String,
    /// The type that was asked for.
    pub(crate) operation_type: String,
    /// Its version.
    pub(crate) version: String,
    /// `organisation/project`.
    pub(crate) project: String,
    /// Every rule that denies; empty when it may.
    pub(crate) violations: Vec<Broken>,
    /// The values that hold.
    #[schema(value_type = Object)]
    pub(crate) effective: Effective,
    /// For each key: the value, who decided it, and what else was said and why that does not hold.
    #[schema(value_type = Vec<Object>)]
    pub(crate) keys: Vec<Explained>,
    /// The documents that were read, the platform's first.
    pub(crate) overlays: Vec<OverlayView>,
    /// The Rego policies that were asked; absent when there are none for this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) rego: Option<RegoTaken>,
}

/// A rule that denies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct Broken {
    /// The key of the overlays, or `fettle.submit.deny` or `fettle.dispatch.deny` of Rego.
    pub(crate) rule: String,
    /// Whose word the rule is: `global`, `tenant`, `project`, or `rego`.
    pub(crate) decided_by: Vec<String>,
    /// JSON pointer into the request.
    pub(crate) pointer: String,
    /// What is wrong, and the fix.
    pub(crate) message: String,
}

/// A document that took part.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct OverlayView {
    /// `global`, `tenant` or `project`.
    level: &'static str,
    /// `platform`, the organisation, or `organisation/project`.
    scope: String,
    /// Its revision.
    revision: u64,
    /// Its ETag.
    etag: String,
    /// Digest of its canonical JSON.
    digest: String,
    /// Who wrote it.
    updated_by: String,
}

/// The Rego policies that took part.
#[derive(Default, Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct RegoTaken {
    /// What was asked: `data.fettle.submit.deny`.
    pub(crate) query: String,
    /// Digest of all files.
    pub(crate) digest: String,
    /// Each file.
    pub(crate) files: Vec<RegoFile>,
}

/// A file of Rego.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct RegoFile {
    /// Its name.
    pub(crate) name: String,
    /// Digest of its bytes.
    pub(crate) digest: String,
}

impl OverlayView {
    pub(crate) fn of(document: &PolicyDocument) -> Self {
        Self {
            level: document.scope.level().name(),
            scope: document.scope.to_string(),
            revision: document.revision,
            etag: format!("\"{}\"", document.tag()),
            digest: document.digest.to_string(),
            updated_by: document.updated_by.clone(),
        }
    }
}

impl Decision {
    /// What the dispatcher must keep.
    pub(crate) const fn limits(&self) -> EffectiveLimits {
        EffectiveLimits {
            timeout_seconds: self.effective.timeout_seconds,
            max_concurrency: self.effective.max_concurrency,
        }
    }

    /// The rules that deny, each at its place of the request.
    pub(crate) fn into_violations(self) -> Violations {
        let violation = |broken: Broken| Violation {
            pointer: broken.pointer,
            message: format!("{} (rule `{}` of {})", broken.message, broken.rule, broken.decided_by.join(" and ")),
        };
        Violations(self.violations.into_iter().map(violation).collect())
    }
}
