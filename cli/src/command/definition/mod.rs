//! `fettle definition`

mod amend;
mod apply;
mod check;
mod list;
mod moves;
mod publish;
mod show;

use clap::Subcommand;

use super::Session;
use crate::error::CommandError;

/// Operation definitions.
#[derive(Debug, Subcommand)]
#[expect(missing_docs, reason = "each command documents itself")]
pub enum DefinitionCommand {
    Check(check::Check),
    Publish(publish::Publish),
    Apply(apply::Apply),
    Amend(amend::Amend),
    Deprecate(moves::Deprecate),
    Retire(moves::Retire),
    List(list::List),
    Show(show::Show),
}

impl DefinitionCommand {
    /// Runs the command.
    ///
    /// # Errors
    /// As the command says.
    pub async fn run(&self, session: &Session) -> Result<(), CommandError> {
        match self {
            Self::Check(command) => command.run(session).await,
            Self::Publish(command) => command.run(session).await,
            Self::Apply(command) => command.run(session).await,
            Self::Amend(command) => command.run(session).await,
            Self::Deprecate(command) => command.run(session).await,
            Self::Retire(command) => command.run(session).await,
            Self::List(command) => command.run(session).await,
            Self::Show(command) => command.run(session).await,
        }
    }
}
