//! `fettle definition apply`

use clap::Args;
use fettle_model::reference::Reference;

use super::Session;
use crate::{
    command::target::PlaneArguments,
    error::CommandError,
    plane::{NewDefinition, Sources},
};

/// Registers a published definition at the plane, with the catalog and the policy bundle that it goes
/// with. The plane fetches and verifies all three, and checks them against each other.
///
/// A version never changes once it is registered; registering the same again changes nothing.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  fettle definition apply 127.0.0.1:5000/definitions/stage@sha256:... \\
      --catalog 127.0.0.1:5000/fettle/catalog@sha256:... \\
      --policy 127.0.0.1:5000/fettle/policy@sha256:...
  fettle definition apply 127.0.0.1:5000/definitions/stage@sha256:... --draft \\
      --catalog 127.0.0.1:5000/fettle/catalog@sha256:... \\
      --policy 127.0.0.1:5000/fettle/policy@sha256:...")]
pub struct Apply {
    /// The definition.
    definition: Reference,
    /// The catalog.
    #[arg(long, value_name = "REFERENCE")]
    catalog: Reference,
    /// The policy bundle.
    #[arg(long, value_name = "REFERENCE")]
    policy: Reference,
    /// Keep it a draft, which `fettle definition amend` changes and publishes. No operation can be made of it.
    #[arg(long)]
    draft: bool,
    #[command(flatten)]
    plane: PlaneArguments,
}

impl Apply {
    pub(super) async fn run(&self, session: &Session) -> Result<(), CommandError> {
        let sources = Sources {
            definition: self.definition.to_string(),
            catalog: self.catalog.to_string(),
            policy: self.policy.to_string(),
        };
        let new = NewDefinition { sources, draft: self.draft };
        let registered = self.plane.client(session).await?.register_definition(&new).await?;
        session.show(&registered, |definition| {
            let name = format!("{}@{}", definition.operation_type, definition.version);
            match definition.status.as_str() {
                "published" => format!("{name} is registered\n"),
                status => format!("{name} is registered, and is {status}\n"),
            }
        })
    }
}
