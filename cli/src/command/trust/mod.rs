//! `fettle trust`

mod activate;
mod check;
mod file;
mod init;
mod publish;
mod rotate;
mod show;

use clap::Subcommand;

use super::Session;
use crate::error::CommandError;

/// Trust policies.
#[derive(Debug, Subcommand)]
#[expect(missing_docs, reason = "each command documents itself")]
pub enum TrustCommand {
    Init(init::Init),
    Check(check::Check),
    Show(show::Show),
    Rotate(rotate::Rotate),
    Publish(publish::Publish),
    Activate(activate::Activate),
}

impl TrustCommand {
    /// Runs the command.
    ///
    /// # Errors
    /// As the command says.
    pub async fn run(&self, session: &Session) -> Result<(), CommandError> {
        match self {
            Self::Init(command) => command.run(session),
            Self::Rotate(command) => command.run(session),
            Self::Check(command) => command.run(session),
            Self::Show(command) => command.run(session),
            Self::Publish(command) => command.run(session).await,
            Self::Activate(command) => command.run(session).await,
        }
    }
}
