//! `fettle operation-policy`

mod delete;
mod list;
mod scope;
mod set;
mod show;
pub(super) mod text;

use clap::Subcommand;

use super::Session;
use crate::error::CommandError;

/// What platform, tenants and projects say of operation types.
#[derive(Debug, Subcommand)]
#[expect(missing_docs, reason = "each command documents itself")]
pub enum OperationPolicyCommand {
    Show(show::Show),
    Set(set::Set),
    List(list::List),
    Delete(delete::Delete),
}

impl OperationPolicyCommand {
    /// Runs the command.
    ///
    /// # Errors
    /// As the command says.
    pub async fn run(&self, session: &Session) -> Result<(), CommandError> {
        match self {
            Self::Show(command) => command.run(session).await,
            Self::Set(command) => command.run(session).await,
            Self::List(command) => command.run(session).await,
            Self::Delete(command) => command.run(session).await,
        }
    }
}
