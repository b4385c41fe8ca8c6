//! `fettle step`

mod build;
mod inspect;
mod look;
mod publish;
mod verify;

use clap::Subcommand;

use super::Session;
use crate::error::CommandError;

/// Steps.
#[derive(Debug, Subcommand)]
pub enum StepCommand {
    /// Build a crate into a component.
    Build(build::Build),
    /// Push and sign a component.
    Publish(publish::Publish),
    /// Show what a component is, asks for and imports.
    Inspect(inspect::Inspect),
    /// Say whether an artifact is signed by somebody who is trusted.
    Verify(verify::Verify),
}

impl StepCommand {
    /// Runs the command.
    ///
    /// # Errors
    /// As the command says.
    pub async fn run(&self, session: &Session) -> Result<(), CommandError> {
        match self {
            Self::Build(command) => command.run(session).await,
            Self::Publish(command) => command.run(session).await,
            Self::Inspect(command) => command.run(session).await,
            Self::Verify(command) => command.run(session).await,
        }
    }
}
