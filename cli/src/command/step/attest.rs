//! `fettle step attest`

use std::path::PathBuf;

use clap::Args;
use fettle_model::{digest::Digest, reference::Reference};
use fettle_supply::ArtifactKind;
use serde_json::json;

use super::Session;
use crate::{
    author::record::{self, Record},
    error::CommandError,
    supply::{self, SigningArguments, TrustArguments},
};

/// Signs the bill of materials and the provenance of a step that is published already, and attaches
/// them.
///
/// The step is fetched and verified first: what nobody trusts is not attested. Both documents must be
/// of the component in it.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  fettle step attest 127.0.0.1:5000/steps/my.step@sha256:... \\
      --built target/wasm32-wasip2/step/my_step.wasm --key builder.key")]
pub struct Attest {
    /// The step.
    reference: Reference,
    /// The component's file, beside which `fettle step build` wrote both documents.
    #[arg(long, value_name = "FILE")]
    built: PathBuf,
    #[command(flatten)]
    signing: SigningArguments,
    #[command(flatten)]
    trust: TrustArguments,
}

impl Attest {
    pub(super) async fn run(&self, session: &Session) -> Result<(), CommandError> {
        let key = self.signing.key(session)?;
        let supplier = self.trust.supplier(session)?;
        let artifact = supplier.artifact(ArtifactKind::Step, &self.reference).await?;
        let (sbom, provenance) = record::paths(&self.built);
        let predicates = Record::read(&sbom, &provenance, Digest::of(&artifact.content))?.predicates()?;
        supply::attest(supplier.registry(), &key, &self.reference, &predicates).await?;
        let types = predicates.map(|(predicate_type, _)| predicate_type);
        let answer = json!({
            "reference": self.reference, "signed_by": key.public().id().to_string(), "attestations": types,
        });
        session.show(&answer, |_| types.map(|attached| format!("{attached}\n")).concat())
    }
}
