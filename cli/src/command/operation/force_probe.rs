//! `fettle operation force-probe`

use clap::Args;

use super::Session;
use crate::{command::target::PlaneArguments, error::CommandError, plane, watch};

/// Asks the nodes of an operation whether steps have happened of which nobody knows it.
///
/// Only probes run: nothing is changed on a node. A step that its probe proves done has succeeded from then on, and one
/// that is proven not done may run again with `retry`; where the probe proves nothing, look at the node and use `recover`.
/// An operation that still runs, or of which nothing is in question, is a conflict (exit code 8).
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  fettle operation force-probe 01J0000000000000000000000A --watch
  fettle operation force-probe 01J0000000000000000000000A --node gpu-17")]
pub struct ForceProbe {
    /// The operation.
    #[arg(value_name = "ID")]
    id: String,
    /// Only this node, by name or id. Repeatable.
    #[arg(long, value_name = "NODE")]
    node: Vec<String>,
    /// Follow it until the nodes have answered; the exit code is that of the operation.
    #[arg(long, short)]
    watch: bool,
    #[command(flatten)]
    plane: PlaneArguments,
}

impl ForceProbe {
    pub(super) async fn run(&self, session: &Session) -> Result<(), CommandError> {
        let client = self.plane.client(session).await?;
        let asked = plane::ForceProbe { nodes: Some(self.node.clone()).filter(|nodes| !nodes.is_empty()) };
        let operation = client.force_probe(&self.id, &asked).await?;
        if self.watch {
            return watch::watch(session, &client, operation).await;
        }
        session.show(&operation, |operation| format!("the nodes of {} are asked\n", operation.operation_id))
    }
}
