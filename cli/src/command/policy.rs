//! `fettle policy`

use std::path::PathBuf;

use clap::{Args, Subcommand};
use fettle_model::policy::PolicyBundle;
use fettle_supply::ArtifactKind;

use super::{Session, published};
use crate::{
    error::CommandError,
    supply::{PublishArguments, read_document},
};

/// Policy bundles.
#[derive(Debug, Subcommand)]
#[expect(missing_docs, reason = "each command documents itself")]
pub enum PolicyCommand {
    Publish(Publish),
}

/// Checks a policy bundle strictly, pushes it as canonical JSON, signs it, and prints its reference by
/// digest.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  fettle policy publish bundle.yaml
  fettle policy publish bundle.yaml --repository registry.internal:5000/fettle/policy --key team.key")]
pub struct Publish {
    /// The policy bundle, in YAML or JSON.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    to: PublishArguments,
}

impl PolicyCommand {
    /// Runs the command.
    ///
    /// # Errors
    /// When the bundle is not valid, or cannot be pushed or signed.
    pub async fn run(&self, session: &Session) -> Result<(), CommandError> {
        let Self::Publish(publish) = self;
        let bundle: PolicyBundle = read_document(&publish.file, "policy bundle")?;
        let subject = publish.file.display().to_string();
        bundle.check().map_err(|violations| CommandError::Broken { subject, violations })?;
        let kind = ArtifactKind::PolicyBundle;
        let published = publish.to.publish_document(session, kind, "fettle/policy", &bundle).await?;
        published::show(session, &published)
    }
}
