//! `fettle step verify`

use clap::{Args, ValueEnum};
use fettle_model::reference::Reference;
use fettle_supply::ArtifactKind;
use serde_json::json;

use super::Session;
use crate::{error::CommandError, exit::Exit, report, supply::TrustArguments};

/// Fetches an artifact and verifies it as a node would: signature, digests, sizes, media types.
///
/// Prints TRUSTED and who signed it (exit code 0), or one of the verdicts UNSIGNED, UNTRUSTED (5),
/// MALFORMED (3), UNAVAILABLE (6; 4 when the registry says that it is not there) with the reason.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  fettle step verify registry.internal:5000/steps/file.render@sha256:... --trust trust.yaml
  fettle step verify --kind catalog registry.internal:5000/fettle/catalog@sha256:...")]
pub struct Verify {
    /// The artifact.
    reference: Reference,
    /// What it should be: trust is given per kind.
    #[arg(long, value_enum, default_value_t = Kind::Step)]
    kind: Kind,
    #[command(flatten)]
    trust: TrustArguments,
}

/// What an artifact is.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Kind {
    /// A step's component.
    Step,
    /// A catalog.
    Catalog,
    /// An operation definition.
    Definition,
    /// A policy bundle.
    PolicyBundle,
}

impl From<Kind> for ArtifactKind {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Step => Self::Step,
            Kind::Catalog => Self::Catalog,
            Kind::Definition => Self::Definition,
            Kind::PolicyBundle => Self::PolicyBundle,
        }
    }
}

impl Verify {
    pub(super) async fn run(&self, session: &Session) -> Result<(), CommandError> {
        let supplier = self.trust.supplier(session)?;
        let error = match supplier.artifact(self.kind.into(), &self.reference).await {
            Ok(artifact) => {
                let answer = json!({ "verdict": "TRUSTED", "reference": self.reference, "signed_by": artifact.signer });
                return session
                    .show(&answer, |_| format!("TRUSTED: {} is signed by {}\n", self.reference, artifact.signer));
            }
            Err(error) => error,
        };
        let CommandError::Supply(supply) = &error else { return Err(error) };
        let Some(verdict) = supply.verdict() else { return Err(error) };
        let reason = report::sentence(supply);
        let answer = json!({ "verdict": verdict.name(), "reference": self.reference, "reason": reason });
        session.show(&answer, |_| format!("{reason}\n"))?;
        Err(if error.exit() == Exit::NotFound {
            CommandError::VerdictMissing
        } else {
            CommandError::Verdict { verdict }
        })
    }
}
