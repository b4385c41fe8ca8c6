//! `fettle operation cancel`

use clap::Args;
use fettle_model::operation::OperationStatus;

use super::Session;
use crate::{command::target::PlaneArguments, error::CommandError};

/// Cancels an operation: at once when no node has taken it, else its node is asked to stop.
///
/// Canceling one that is canceled already changes nothing; one that has succeeded or failed is a
/// conflict (exit code 8).
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  fettle operation cancel 01J0000000000000000000000A")]
pub struct Cancel {
    /// The operation.
    #[arg(value_name = "ID")]
    id: String,
    #[command(flatten)]
    plane: PlaneArguments,
}

impl Cancel {
    pub(super) async fn run(&self, session: &Session) -> Result<(), CommandError> {
        let operation = self.plane.client(session).await?.cancel(&self.id).await?;
        session.show(&operation, |operation| match operation.status {
            OperationStatus::Canceled => format!("{} is canceled\n", operation.operation_id),
            OperationStatus::Queued
            | OperationStatus::Running
            | OperationStatus::Succeeded
            | OperationStatus::Failed => format!("{} is asked to stop\n", operation.operation_id),
        })
    }
}
