//! `fettle definition amend`

use clap::Args;
use fettle_model::reference::Reference;

use super::Session;
use crate::{command::target::PlaneArguments, error::CommandError, plane::Amendment};

/// Changes a draft of a definition, publishes it, or both. The plane fetches and checks the documents as when
/// a definition is registered.
///
/// Once it is published, a version never changes.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  fettle definition amend model.artifact.stage@v2 --policy 127.0.0.1:5000/fettle/policy@sha256:...
  fettle definition amend model.artifact.stage@v2 --publish")]
pub struct Amend {
    /// `operation_type@version`, or an id.
    #[arg(value_name = "TYPE@VERSION")]
    name: String,
    /// Another document for the definition.
    #[arg(long, value_name = "REFERENCE")]
    definition: Option<Reference>,
    /// Another catalog.
    #[arg(long, value_name = "REFERENCE")]
    catalog: Option<Reference>,
    /// Another policy bundle.
    #[arg(long, value_name = "REFERENCE")]
    policy: Option<Reference>,
    /// Publish it.
    #[arg(long, required_unless_present_any = ["definition", "catalog", "policy"])]
    publish: bool,
    #[command(flatten)]
    plane: PlaneArguments,
}

impl Amend {
    pub(super) async fn run(&self, session: &Session) -> Result<(), CommandError> {
        let text = |reference: &Option<Reference>| reference.as_ref().map(ToString::to_string);
        let amendment = Amendment {
            definition: text(&self.definition),
            catalog: text(&self.catalog),
            policy: text(&self.policy),
            publish: self.publish,
        };
        let amended = self.plane.client(session).await?.amend_definition(&self.name, &amendment).await?;
        session.show(&amended, super::moves::now)
    }
}
