//! `fettle operation watch`

use clap::Args;

use super::Session;
use crate::{command::target::PlaneArguments, error::CommandError, watch};

/// Follows an operation until it is over: drawn live on a terminal, one line per event anywhere else
/// (or with `NO_COLOR`, or `TERM=dumb`), one JSON value per line with `--json`.
///
/// The exit code is that of the operation: 0 succeeded, 1 failed, 7 canceled. Ctrl-c stops watching,
/// not the operation.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  fettle operation watch 01J0000000000000000000000A
  fettle operation watch 01J0000000000000000000000A | tee operation.log")]
pub struct Watch {
    /// The operation.
    #[arg(value_name = "ID")]
    id: String,
    #[command(flatten)]
    plane: PlaneArguments,
}

impl Watch {
    pub(super) async fn run(&self, session: &Session) -> Result<(), CommandError> {
        let client = self.plane.client(session).await?;
        let operation = client.operation(&self.id).await?;
        watch::watch(session, &client, operation).await
    }
}
