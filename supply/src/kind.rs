//! The kinds of artifacts that an administrator signs, and what each may look like.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Media type of an OCI image manifest, the only manifest form of Fettle's artifacts.
pub const MANIFEST_MEDIA_TYPE: &str = oci_client::manifest::OCI_IMAGE_MEDIA_TYPE;
/// Media type of the layer of a step.
pub(crate) const WASM_MEDIA_TYPE: &str = "application/wasm";
/// The older name of the same, which some build tools still write.
pub(crate) const WASM_LEGACY_MEDIA_TYPE: &str = oci_client::manifest::WASM_LAYER_MEDIA_TYPE;
/// Media type of the configuration of a step.
pub(crate) const WASM_CONFIG_MEDIA_TYPE: &str = "application/vnd.wasm.config.v0+json";
/// Media type of the configuration of everything else: `{}`.
pub(crate) const EMPTY_CONFIG_MEDIA_TYPE: &str = "application/vnd.oci.empty.v1+json";
/// The member of a step's configuration that holds its descriptor.
pub(crate) const DESCRIPTOR_MEMBER: &str = "fettle.descriptor";

/// Largest manifest of an artifact, in bytes.
pub const MANIFEST_LIMIT: u64 = 1 << 20;
/// Largest configuration of a step, in bytes.
pub(crate) const CONFIG_LIMIT: u64 = 1 << 20;

/// What an artifact is. Trust is given per kind: who may sign steps need not be who may sign
/// definitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ArtifactKind {
    /// A WebAssembly component that implements a step kind.
    Step,
    /// A map from step kinds to components.
    Catalog,
    /// An operation definition.
    Definition,
    /// Command profiles, resolver rules and the node's ceiling.
    PolicyBundle,
    /// Which policy bundles count on nodes from now on.
    PolicyActivation,
    /// Whose signatures count from now on.
    TrustPolicy,
}

impl ArtifactKind {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Step, Self::Catalog, Self::Definition, Self::PolicyBundle, Self::PolicyActivation, Self::TrustPolicy];

    /// The name in a trust policy.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Step => "step",
            Self::Catalog => "catalog",
            Self::Definition => "definition",
            Self::PolicyBundle => "policy_bundle",
            Self::PolicyActivation => "policy_activation",
            Self::TrustPolicy => "trust_policy",
        }
    }

    /// Media types that the one layer may have; the first is what `push` writes.
    #[must_use]
    pub const fn layer_media_types(self) -> &'static [&'static str] {
        match self {
            Self::Step => &[WASM_MEDIA_TYPE, WASM_LEGACY_MEDIA_TYPE],
            Self::Catalog => &["application/vnd.fettle.catalog.v1+json"],
            Self::Definition => &["application/vnd.fettle.definition.v1+json"],
            Self::PolicyBundle => &["application/vnd.fettle.policy-bundle.v1+json"],
            Self::PolicyActivation => &["application/vnd.fettle.policy-activation.v1+json"],
            Self::TrustPolicy => &["application/vnd.fettle.trust-policy.v1+json"],
        }
    }

    /// The manifest's `artifactType`. A step has none: its configuration's media type says what it is.
    #[must_use]
    pub const fn artifact_type(self) -> Option<&'static str> {
        match self {
            Self::Step => None,
            Self::Catalog | Self::Definition | Self::PolicyBundle | Self::PolicyActivation | Self::TrustPolicy => {
                Some(self.layer_media_types()[0])
            }
        }
    }

    /// Media type of the configuration.
    #[must_use]
    pub const fn config_media_type(self) -> &'static str {
        match self {
            Self::Step => WASM_CONFIG_MEDIA_TYPE,
            Self::Catalog | Self::Definition | Self::PolicyBundle | Self::PolicyActivation | Self::TrustPolicy => {
                EMPTY_CONFIG_MEDIA_TYPE
            }
        }
    }

    /// Largest layer, in bytes.
    #[must_use]
    pub const fn layer_limit(self) -> u64 {
        match self {
            Self::Step => 64 << 20,
            Self::Catalog | Self::Definition | Self::PolicyBundle | Self::PolicyActivation | Self::TrustPolicy => {
                1 << 20
            }
        }
    }
}

impl fmt::Display for ArtifactKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Step => "step",
            Self::Catalog => "catalog",
            Self::Definition => "definition",
            Self::PolicyBundle => "policy bundle",
            Self::PolicyActivation => "policy activation",
            Self::TrustPolicy => "trust policy",
        })
    }
}
