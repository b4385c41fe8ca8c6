//! `fettle operation recover`

use clap::{ArgGroup, Args};
use fettle_model::operation::OperationStatus;
use serde_json::Value;

use super::Session;
use crate::{command::target::PlaneArguments, error::CommandError, plane, watch};

/// Says whether a step has happened of which nobody knows it, after a person has looked at its node.
///
/// With `--done` the step has succeeded; with `--not-done` it has failed and may run again. The operation then goes
/// on from the first step that did not succeed, unless `--stop` says otherwise. A step of which it is known how it ended
/// is a conflict (exit code 8).
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("outcome").required(true))]
#[command(after_long_help = "\
Examples:
  fettle operation recover 01J0000000000000000000000A --step enroll --not-done --watch
  fettle operation recover 01J0000000000000000000000A --step enroll --done --output '{\"id\": 7}' --stop")]
pub struct Recover {
    /// The operation.
    #[arg(value_name = "ID")]
    id: String,
    /// The step.
    #[arg(long, value_name = "STEP")]
    step: String,
    /// The node, by name or id; needed where the step is in question on several.
    #[arg(long, value_name = "NODE")]
    node: Option<String>,
    /// It happened.
    #[arg(long, group = "outcome")]
    done: bool,
    /// It did not happen.
    #[arg(long, group = "outcome")]
    not_done: bool,
    /// What the step put out, as JSON; later steps are given it.
    #[arg(long, value_name = "JSON", requires = "done", value_parser = json)]
    output: Option<Value>,
    /// Leave the operation as it is then.
    #[arg(long)]
    stop: bool,
    /// Follow it until it is over; the exit code is that of the operation.
    #[arg(long, short, conflicts_with = "stop")]
    watch: bool,
    #[command(flatten)]
    plane: PlaneArguments,
}

fn json(text: &str) -> Result<Value, String> {
    serde_json::from_str(text).map_err(|error| format!("{error}; write JSON, as in '{{\"id\": 7}}'"))
}

impl Recover {
    pub(super) async fn run(&self, session: &Session) -> Result<(), CommandError> {
        let client = self.plane.client(session).await?;
        let said = plane::Recover {
            step_id: self.step.clone(),
            node: self.node.clone(),
            outcome: if self.done { "done" } else { "not_done" },
            output: self.output.clone(),
            then: if self.stop { "stop" } else { "continue" },
        };
        let operation = client.recover(&self.id, &said).await?;
        if self.watch {
            return watch::watch(session, &client, operation).await;
        }
        session.show(&operation, |operation| match operation.status {
            OperationStatus::Queued | OperationStatus::Running => format!("{} goes on\n", operation.operation_id),
            status @ (OperationStatus::Succeeded | OperationStatus::Failed | OperationStatus::Canceled) => {
                format!("{} is {status}\n", operation.operation_id)
            }
        })
    }
}
