//! Kinds of artifacts as options.

use clap::ValueEnum;
use fettle_supply::ArtifactKind;

/// What an artifact is.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum Kind {
    /// A step's component.
    Step,
    /// A catalog.
    Catalog,
    /// An operation definition.
    Definition,
    /// A policy bundle.
    PolicyBundle,
    /// Which policy bundles count.
    PolicyActivation,
    /// A trust policy.
    TrustPolicy,
}

impl From<Kind> for ArtifactKind {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Step => Self::Step,
            Kind::Catalog => Self::Catalog,
            Kind::Definition => Self::Definition,
            Kind::PolicyBundle => Self::PolicyBundle,
            Kind::PolicyActivation => Self::PolicyActivation,
            Kind::TrustPolicy => Self::TrustPolicy,
        }
    }
}
