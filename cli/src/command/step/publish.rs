//! `fettle step publish`

use std::path::PathBuf;

use clap::Args;
use fettle_model::{digest::Digest, name::StepKind, reference::Reference};
use fettle_supply::ArtifactKind;
use serde::Serialize;

use super::{Session, look};
use crate::{error::CommandError, supply::PublishArguments};

/// Pushes a component with its descriptor, signs it, and prints its reference by digest.
///
/// The component is first asked what it is, in a sandbox where it reaches nothing; one that imports
/// what it does not ask for is not published. Publishing the same bytes again changes nothing.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  fettle step publish target/wasm32-wasip2/step/my_step.wasm
  fettle step publish my_step.wasm --repository registry.internal:5000/steps/my.step --key team.key")]
pub struct Publish {
    /// The component.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    to: PublishArguments,
}

#[derive(Debug, Serialize)]
struct PublishedStep {
    reference: Reference,
    kind: StepKind,
    component_digest: Digest,
    signed_by: String,
}

impl Publish {
    pub(super) async fn run(&self, session: &Session) -> Result<(), CommandError> {
        let content = look::read(&self.file).await?;
        let seen = look::look(&self.file, content.clone()).await?;
        seen.check(&self.file)?;
        let kind = seen.descriptor.kind.clone();
        let descriptor = serde_json::to_value(&seen.descriptor)
            .map_err(|error| CommandError::Refused { path: self.file.clone(), reason: error.to_string() })?;
        let default_path = format!("steps/{}", kind.name());
        let published =
            self.to.publish(session, ArtifactKind::Step, &default_path, content.to_vec(), Some(descriptor)).await?;
        let published = PublishedStep {
            reference: published.reference,
            kind,
            component_digest: seen.digest,
            signed_by: published.signed_by,
        };
        session.show(&published, |published| format!("{}\n", published.reference))
    }
}
