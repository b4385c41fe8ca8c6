//! `fettle operation`

mod cancel;
mod force_probe;
mod list;
mod logs;
mod plan;
mod recover;
pub(super) mod request;
mod retry;
mod show;
mod submit;
mod watch;

use clap::Subcommand;

use super::Session;
use crate::error::CommandError;

/// Operations.
#[derive(Debug, Subcommand)]
#[expect(missing_docs, reason = "each command documents itself")]
pub enum OperationCommand {
    Plan(plan::Plan),
    Submit(submit::Submit),
    Watch(watch::Watch),
    List(list::List),
    Show(show::Show),
    Logs(logs::Logs),
    Cancel(cancel::Cancel),
    Retry(retry::Retry),
    ForceProbe(force_probe::ForceProbe),
    Recover(recover::Recover),
}

impl OperationCommand {
    /// Runs the command.
    ///
    /// # Errors
    /// As the command says.
    pub async fn run(&self, session: &Session) -> Result<(), CommandError> {
        match self {
            Self::Plan(command) => command.run(session).await,
            Self::Submit(command) => command.run(session).await,
            Self::Watch(command) => command.run(session).await,
            Self::List(command) => command.run(session).await,
            Self::Show(command) => command.run(session).await,
            Self::Logs(command) => command.run(session).await,
            Self::Cancel(command) => command.run(session).await,
            Self::Retry(command) => command.run(session).await,
            Self::ForceProbe(command) => command.run(session).await,
            Self::Recover(command) => command.run(session).await,
        }
    }
}
