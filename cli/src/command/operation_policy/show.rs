//! `fettle operation-policy show`

use clap::Args;

use super::{Session, scope::ScopeArguments, text};
use crate::{command::target::PlaneArguments, error::CommandError};

/// Shows what a scope says of an operation type. Of a project also what holds there, and why.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  fettle operation-policy show model.artifact.stage
  fettle operation-policy show model.artifact.stage --tenant research --json")]
pub struct Show {
    /// The operation type, without its version.
    #[arg(value_name = "TYPE")]
    operation_type: String,
    #[command(flatten)]
    scope: ScopeArguments,
    #[command(flatten)]
    plane: PlaneArguments,
}

impl Show {
    pub(super) async fn run(&self, session: &Session) -> Result<(), CommandError> {
        let client = self.plane.client(session).await?;
        let policy = client.operation_policy(&self.scope.scope(), &self.operation_type).await?;
        session.show(&policy, text::policy)
    }
}
