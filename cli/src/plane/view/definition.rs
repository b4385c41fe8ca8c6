//! Definitions.

use serde::{Deserialize, Serialize};

use super::Rest;

/// A registered version of an operation definition.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Definition {
    /// Its id.
    pub id: String,
    /// Its type.
    pub operation_type: String,
    /// Its version.
    pub version: String,
    /// One sentence.
    #[serde(default)]
    pub summary: String,
    /// Whether it can be used.
    pub status: String,
    /// The signed documents.
    pub sources: Sources,
    /// Its steps.
    #[serde(default)]
    pub steps: Vec<DefinedStep>,
    /// RFC 3339.
    pub created_at: String,
    /// The whole document; only where one version is shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub definition: Option<fettle_model::definition::Definition>,
    /// Everything else.
    #[serde(flatten)]
    pub rest: Rest,
}

/// Where the signed documents are.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Sources {
    /// The operation definition.
    pub definition: String,
    /// The step catalog.
    pub catalog: String,
    /// The policy bundle.
    pub policy: String,
}

/// A version to be registered.
#[derive(Clone, Debug, Serialize)]
pub struct NewDefinition {
    /// The signed documents.
    #[serde(flatten)]
    pub sources: Sources,
    /// Whether it stays a draft.
    pub draft: bool,
}

/// What becomes of a draft; what is none stays as it is.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Amendment {
    /// The operation definition.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub definition: Option<String>,
    /// The step catalog.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub catalog: Option<String>,
    /// The policy bundle.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,
    /// Whether it is published.
    pub publish: bool,
}

/// A step of a definition.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DefinedStep {
    /// Its name.
    pub id: String,
    /// Its kind.
    pub uses: String,
    /// Steps before it.
    #[serde(default)]
    pub needs: Vec<String>,
    /// What implements it.
    #[serde(default)]
    pub component: Option<String>,
}
