//! `fettle definition list`

use clap::Args;

use super::Session;
use crate::{command::target::PlaneArguments, error::CommandError, output};

/// Lists the operation definitions that are registered at the plane.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  fettle definition list
  fettle definition list --json")]
pub struct List {
    #[command(flatten)]
    plane: PlaneArguments,
}

impl List {
    pub(super) async fn run(&self, session: &Session) -> Result<(), CommandError> {
        let definitions = self.plane.client(session).await?.definitions().await?;
        session.show(&definitions, |definitions| {
            if definitions.is_empty() {
                return "no definition is registered; `fettle definition apply` registers one\n".to_owned();
            }
            let rows = definitions.iter().map(|one| {
                let name = format!("{}@{}", one.operation_type, one.version);
                vec![name, one.status.clone(), one.steps.len().to_string(), one.summary.clone()]
            });
            output::table(&["OPERATION", "STATUS", "STEPS", "SUMMARY"], &rows.collect::<Vec<_>>())
        })
    }
}
