//! `fettle catalog`

use std::path::PathBuf;

use clap::{Args, Subcommand};
use fettle_model::{
    catalog::Catalog,
    violation::{Violation, Violations},
};
use fettle_supply::ArtifactKind;

use super::{Session, published};
use crate::{
    error::CommandError,
    supply::{PublishArguments, read_document},
};

/// Catalogs.
#[derive(Debug, Subcommand)]
#[expect(missing_docs, reason = "each command documents itself")]
pub enum CatalogCommand {
    Publish(Publish),
}

/// Checks a catalog strictly, pushes it as canonical JSON, signs it, and prints its reference by
/// digest.
///
/// A catalog maps step kinds to components by digest:
///   steps:
///     file.render@v1: registry.internal:5000/steps/file.render@sha256:...
#[derive(Debug, Args)]
#[command(
    verbatim_doc_comment,
    after_long_help = "\
Examples:
  fettle catalog publish catalog.yaml
  fettle catalog publish catalog.yaml --repository registry.internal:5000/fettle/catalog --key team.key"
)]
pub struct Publish {
    /// The catalog, in YAML or JSON.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    to: PublishArguments,
}

impl CatalogCommand {
    /// Runs the command.
    ///
    /// # Errors
    /// When the catalog is not valid, or cannot be pushed or signed.
    pub async fn run(&self, session: &Session) -> Result<(), CommandError> {
        let Self::Publish(publish) = self;
        let catalog: Catalog = read_document(&publish.file, "catalog")?;
        if catalog.steps.is_empty() {
            return Err(CommandError::Broken {
                subject: publish.file.display().to_string(),
                violations: Violations(vec![Violation::new(
                    "/steps",
                    "a catalog names at least one step; write `<kind>@v1: <reference>`",
                )]),
            });
        }
        let kind = ArtifactKind::Catalog;
        let published = publish.to.publish_document(session, kind, "fettle/catalog", &catalog).await?;
        published::show(session, &published)
    }
}
