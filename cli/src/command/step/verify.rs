//! `fettle step verify`

use clap::Args;
use fettle_model::reference::Reference;

use super::Session;
use crate::{
    command::{kind::Kind, verdict},
    error::CommandError,
    supply::TrustArguments,
};

/// Fetches an artifact and verifies it as a node would: signatures, digests, sizes, media types.
///
/// Prints TRUSTED and who signed it (exit code 0), or one of the verdicts UNSIGNED, UNTRUSTED (5),
/// MALFORMED (3), UNAVAILABLE (6; 4 when the registry says that it is not there) with the reason; and
/// what each signature turned out to be.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  fettle step verify registry.internal:5000/steps/file.render@sha256:... --trust trust.yaml
  fettle step verify --attestations registry.internal:5000/steps/file.render@sha256:...
  fettle step verify --kind catalog registry.internal:5000/fettle/catalog@sha256:...
  fettle step verify ...@sha256:... --json | jq '.chain[]'")]
pub struct Verify {
    /// The artifact.
    reference: Reference,
    /// What it should be: trust is given per kind.
    #[arg(long, value_enum, default_value_t = Kind::Step)]
    kind: Kind,
    /// A step must also have a bill of materials and a provenance that hold; lists all that is attached.
    #[arg(long)]
    attestations: bool,
    #[command(flatten)]
    trust: TrustArguments,
}

impl Verify {
    pub(super) async fn run(&self, session: &Session) -> Result<(), CommandError> {
        verdict::show(session, &self.trust, self.kind.into(), &self.reference, self.attestations).await
    }
}
