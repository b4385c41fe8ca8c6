//! `fettle definition publish`

use std::path::PathBuf;

use clap::Args;
use fettle_model::definition::Definition;
use fettle_supply::ArtifactKind;

use super::{super::published, Session, check};
use crate::{
    error::CommandError,
    supply::{PublishArguments, read_document},
};

/// Checks a definition strictly, pushes it as canonical JSON, signs it, and prints its reference by
/// digest.
///
/// The graph is checked here; `fettle definition check` and `apply` check it against a catalog too.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  fettle definition publish stage.yaml
  fettle definition publish stage.yaml --repository registry.internal:5000/definitions/stage --key team.key")]
pub struct Publish {
    /// The definition, in YAML or JSON.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    to: PublishArguments,
}

impl Publish {
    pub(super) async fn run(&self, session: &Session) -> Result<(), CommandError> {
        let definition: Definition = read_document(&self.file, "operation definition")?;
        check::alone(&self.file, &definition)?;
        let default_path = format!("definitions/{}", definition.operation_type);
        let kind = ArtifactKind::Definition;
        let published = self.to.publish_document(session, kind, &default_path, &definition).await?;
        published::show(session, &published)
    }
}
