//! `fettle definition`

mod apply;
mod check;
mod list;
mod publish;
mod show;

use clap::Subcommand;

use super::Session;
use crate::error::CommandError;

/// Operation definitions.
#[derive(Debug, Subcommand)]
pub enum DefinitionCommand {
    /// Say everything that is wrong with a definition.
    Check(check::Check),
    /// Check, push and sign a definition.
    Publish(publish::Publish),
    /// Register a published definition at the plane.
    Apply(apply::Apply),
    /// List the registered definitions.
    List(list::List),
    /// Show one registered definition.
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
            Self::List(command) => command.run(session).await,
            Self::Show(command) => command.run(session).await,
        }
    }
}
