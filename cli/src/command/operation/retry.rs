//! `fettle operation retry`

use std::time::Duration;

use clap::Args;

use super::Session;
use crate::{command::target::PlaneArguments, error::CommandError, plane, watch};

/// Runs an operation again that failed or was canceled, from the first step that did not succeed.
///
/// Nodes where it succeeded are left alone, and so are steps that succeeded, unless the definition says that
/// they are not reusable. An operation that is not over or has succeeded is a conflict (exit code 8). So is a step
/// of which nobody knows whether it happened, until `--accept-unknown` says that it may happen twice.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  fettle operation retry 01J0000000000000000000000A --watch
  fettle operation retry 01J0000000000000000000000A --node gpu-17 --node gpu-18")]
pub struct Retry {
    /// The operation.
    #[arg(value_name = "ID")]
    id: String,
    /// Only on this node, by name or id. Repeatable.
    #[arg(long, value_name = "NODE")]
    node: Vec<String>,
    /// Run steps again of which nobody knows whether they happened.
    #[arg(long)]
    accept_unknown: bool,
    /// The longest that the new run may take: `30m`, `2h`.
    #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration)]
    timeout: Option<Duration>,
    /// Follow it until it is over; the exit code is that of the operation.
    #[arg(long, short)]
    watch: bool,
    #[command(flatten)]
    plane: PlaneArguments,
}

impl Retry {
    pub(super) async fn run(&self, session: &Session) -> Result<(), CommandError> {
        let client = self.plane.client(session).await?;
        let retry = plane::Retry {
            nodes: Some(self.node.clone()).filter(|nodes| !nodes.is_empty()),
            accept_unknown: self.accept_unknown,
            timeout_seconds: self.timeout.map(|timeout| timeout.as_secs()),
        };
        let operation = client.retry(&self.id, &retry).await?;
        if self.watch {
            return watch::watch(session, &client, operation).await;
        }
        session.show(&operation, |operation| format!("{} runs again\n", operation.operation_id))
    }
}
