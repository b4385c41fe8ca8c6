//! `fettle step publish`

use std::path::PathBuf;

use clap::Args;
use fettle_model::{digest::Digest, name::StepKind, reference::Reference};
use fettle_supply::ArtifactKind;
use serde::Serialize;
use serde_json::Value;

use super::{Session, look};
use crate::{author::record::Record, error::CommandError, output, supply::PublishArguments};

/// Pushes a component with its descriptor, signs it, and prints its reference by digest.
///
/// The component is first asked what it is, in a sandbox where it reaches nothing; one that imports
/// what it does not ask for is not published. What `fettle step build` wrote beside it, its bill of
/// materials and its provenance, is signed too and attached as attestations. Publishing the same bytes
/// again changes nothing.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  fettle step publish target/wasm32-wasip2/step/my_step.wasm
  fettle step publish my_step.wasm --repository registry.internal:5000/steps/my.step --key team.key")]
pub struct Publish {
    /// The component.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Leave out the bill of materials and the provenance.
    #[arg(long)]
    no_attestations: bool,
    #[command(flatten)]
    to: PublishArguments,
}

#[derive(Debug, Serialize)]
struct PublishedStep {
    reference: Reference,
    kind: StepKind,
    component_digest: Digest,
    signed_by: String,
    /// Types of what was attached.
    attestations: Vec<&'static str>,
}

impl Publish {
    pub(super) async fn run(&self, session: &Session) -> Result<(), CommandError> {
        let content = look::read(&self.file).await?;
        let seen = look::look(&self.file, content.clone()).await?;
        seen.check(&self.file)?;
        // All that can be wrong here is found before anything is pushed.
        let predicates = self.predicates(seen.digest)?;
        let kind = seen.descriptor.kind.clone();
        let descriptor = serde_json::to_value(&seen.descriptor)
            .map_err(|error| CommandError::Refused { path: self.file.clone(), reason: error.to_string() })?;
        let default_path = format!("steps/{}", kind.name());
        let published =
            self.to.publish(session, ArtifactKind::Step, &default_path, content.to_vec(), Some(descriptor)).await?;
        self.to.attest(session, &published.reference, &predicates).await?;
        let published = PublishedStep {
            reference: published.reference,
            kind,
            component_digest: seen.digest,
            signed_by: published.signed_by,
            attestations: predicates.iter().map(|(predicate_type, _)| *predicate_type).collect(),
        };
        session.show(&published, |published| format!("{}\n", published.reference))
    }

    fn predicates(&self, component: Digest) -> Result<Vec<(&'static str, Value)>, CommandError> {
        if self.no_attestations {
            return Ok(Vec::new());
        }
        match Record::beside(&self.file, component)? {
            Some(record) => Ok(record.predicates()?.into()),
            None => {
                output::remark(&format!(
                    "warning: nothing is known of how {} was built; `fettle step build` writes it beside",
                    self.file.display()
                ));
                Ok(Vec::new())
            }
        }
    }
}
