//! `fettle operation`

mod cancel;
mod list;
mod logs;
mod plan;
mod request;
mod show;
mod submit;
mod watch;

use clap::Subcommand;

use super::Session;
use crate::error::CommandError;

/// Operations.
#[derive(Debug, Subcommand)]
pub enum OperationCommand {
    /// Show what an operation would be; nothing is stored.
    Plan(plan::Plan),
    /// Submit an operation.
    Submit(submit::Submit),
    /// Follow an operation until it is over.
    Watch(watch::Watch),
    /// List the operations of a project.
    List(list::List),
    /// Show an operation with its steps and what they put out.
    Show(show::Show),
    /// Print the log of an operation.
    Logs(logs::Logs),
    /// Cancel an operation.
    Cancel(cancel::Cancel),
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
        }
    }
}
