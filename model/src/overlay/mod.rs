//! Overlays: what the platform, a tenant and a project say of one operation type, each in a document of seven
//! keys. [`chain::resolve`] makes one answer of them.

pub mod chain;
mod source;

use std::{
    collections::BTreeSet,
    fmt,
    num::{NonZeroU32, NonZeroU64},
};

use serde::{Deserialize, Serialize};

pub use source::{ParseSourceError, Source};

/// What one scope says of an operation type. A key that is absent says nothing. Unknown keys are errors.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Overlay {
    /// Whether operations of the type are accepted. `false` of the platform is final.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// How many operations of the type may be under way at once in this scope.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_concurrency: Option<NonZeroU32>,
    /// The longest that an operation of the type may take.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<NonZeroU32>,
    /// Where artifacts may come from that inputs name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allowed_artifact_sources: Option<BTreeSet<Source>>,
    /// What operations may be for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allowed_target_kinds: Option<BTreeSet<TargetKind>>,
    /// Whether the definition must demand signed artifacts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub require_signature_verification: Option<bool>,
    /// The most that the definition may allow as the size of an artifact.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_artifact_size_bytes: Option<NonZeroU64>,
}

/// What an operation can be for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TargetKind {
    /// One node.
    Node,
    /// All nodes that have a label.
    Label,
    /// What was allocated to somebody.
    Allocation,
    /// A group of nodes.
    Group,
}

/// A key of an overlay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Key {
    /// [`Overlay::enabled`]
    Enabled,
    /// [`Overlay::max_concurrency`]
    MaxConcurrency,
    /// [`Overlay::timeout_seconds`]
    TimeoutSeconds,
    /// [`Overlay::allowed_artifact_sources`]
    AllowedArtifactSources,
    /// [`Overlay::allowed_target_kinds`]
    AllowedTargetKinds,
    /// [`Overlay::require_signature_verification`]
    RequireSignatureVerification,
    /// [`Overlay::max_artifact_size_bytes`]
    MaxArtifactSizeBytes,
}

/// Who speaks, from the most general to the most specific.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// The platform.
    Global,
    /// An organisation.
    Tenant,
    /// A project.
    Project,
}

impl Key {
    /// All of them, as documents are written.
    pub const ALL: [Self; 7] = [
        Self::Enabled,
        Self::MaxConcurrency,
        Self::TimeoutSeconds,
        Self::AllowedArtifactSources,
        Self::AllowedTargetKinds,
        Self::RequireSignatureVerification,
        Self::MaxArtifactSizeBytes,
    ];

    /// The name in documents.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Enabled => "enabled",
            Self::MaxConcurrency => "max_concurrency",
            Self::TimeoutSeconds => "timeout_seconds",
            Self::AllowedArtifactSources => "allowed_artifact_sources",
            Self::AllowedTargetKinds => "allowed_target_kinds",
            Self::RequireSignatureVerification => "require_signature_verification",
            Self::MaxArtifactSizeBytes => "max_artifact_size_bytes",
        }
    }
}

impl TargetKind {
    /// The name in documents, and in target selectors.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Node => "node",
            Self::Label => "label",
            Self::Allocation => "allocation",
            Self::Group => "group",
        }
    }
}

impl Level {
    /// The name in documents.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Global => "global",
            Self::Tenant => "tenant",
            Self::Project => "project",
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
