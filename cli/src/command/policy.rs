//! `fettle policy`

mod activate;
mod explain;

use std::path::PathBuf;

use clap::{Args, Subcommand};
use fettle_model::policy::PolicyBundle;
use fettle_supply::ArtifactKind;

use super::{Session, published};
use crate::{
    error::CommandError,
    supply::{PublishArguments, read_document},
};

/// Policy bundles, and what policy says of an operation.
#[derive(Debug, Subcommand)]
#[expect(missing_docs, reason = "each command documents itself")]
pub enum PolicyCommand {
    Publish(Publish),
    Activate(activate::Activate),
    Explain(explain::Explain),
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
    /// As the command says.
    pub async fn run(&self, session: &Session) -> Result<(), CommandError> {
        match self {
            Self::Publish(command) => command.run(session).await,
            Self::Activate(command) => command.run(session).await,
            Self::Explain(command) => command.run(session).await,
        }
    }
}

impl Publish {
    async fn run(&self, session: &Session) -> Result<(), CommandError> {
        let bundle: PolicyBundle = read_document(&self.file, "policy bundle")?;
        let subject = self.file.display().to_string();
        bundle.check().map_err(|violations| CommandError::Broken { subject, violations })?;
        let kind = ArtifactKind::PolicyBundle;
        let published = self.to.publish_document(session, kind, "fettle/policy", &bundle).await?;
        published::show(session, &published)
    }
}
