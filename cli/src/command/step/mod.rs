//! `fettle step`

mod attest;
mod build;
mod component;
mod inspect;
mod look;
mod new;
mod publish;
mod replay;
mod run;
mod test;
mod verify;

use clap::Subcommand;

use super::Session;
use crate::error::CommandError;

/// Steps.
#[derive(Debug, Subcommand)]
#[expect(missing_docs, reason = "each command documents itself")]
pub enum StepCommand {
    New(new::New),
    Build(build::Build),
    Publish(publish::Publish),
    Attest(attest::Attest),
    Inspect(inspect::Inspect),
    Verify(verify::Verify),
    Run(run::Run),
    Test(test::Test),
    Replay(replay::Replay),
}

impl StepCommand {
    /// Runs the command.
    ///
    /// # Errors
    /// As the command says.
    pub async fn run(&self, session: &Session) -> Result<(), CommandError> {
        match self {
            Self::New(command) => command.run(session).await,
            Self::Build(command) => command.run(session).await,
            Self::Publish(command) => command.run(session).await,
            Self::Attest(command) => command.run(session).await,
            Self::Inspect(command) => command.run(session).await,
            Self::Verify(command) => command.run(session).await,
            Self::Run(command) => command.run(session).await,
            Self::Test(command) => command.run(session).await,
            Self::Replay(command) => command.run(session).await,
        }
    }
}
