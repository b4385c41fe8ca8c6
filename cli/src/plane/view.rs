//! What the plane answers. Fields that this program does not know are kept, so that `--json` shows them.

mod definition;
mod node;
mod planned;
mod request;

use fettle_model::{
    access::Fix,
    failure::Failure,
    operation::{OperationStatus, StepStatus},
    settlement::Settlement,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub use self::{
    definition::{Amendment, Definition, NewDefinition, Sources},
    node::Node,
    planned::{PlanAccess, PlannedAccess, PlannedNode, PlannedOperation},
    request::{ForceProbe, NewOperation, Recover, Retry, TargetSelector},
};

/// Fields of an answer that have no name here.
pub(super) type Rest = Map<String, Value>;

/// An operation.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Operation {
    /// Its id.
    pub operation_id: String,
    /// Its type.
    pub operation_type: String,
    /// The version of the type.
    pub version: String,
    /// Where it is.
    pub status: OperationStatus,
    /// What was asked for.
    #[serde(default)]
    pub target_selector: Value,
    /// The id of its node, when it is for one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub linked_node_id: Option<String>,
    /// How many nodes it is for.
    #[serde(default = "one")]
    pub total_nodes: u32,
    /// Its nodes; only where one operation is shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<Vec<NodeTask>>,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
    /// RFC 3339.
    pub created_at: String,
    /// When a node took it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<String>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<String>,
    /// Its steps, in the order of the plan; only where one operation is shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steps: Option<Vec<Step>>,
    /// Calls that its steps were denied; only where one operation is shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub denials: Option<Vec<DeniedCall>>,
    /// What whoever submits it should know; only in the answer to that.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Warning>,
    /// Everything else.
    #[serde(flatten)]
    pub rest: Rest,
}

const fn one() -> u32 {
    1
}

impl Operation {
    /// Where it runs: what was asked for, with the number of nodes where it is not one by name.
    #[must_use]
    pub fn place(&self) -> String {
        let asked = |name: &str| self.target_selector.get(name).and_then(Value::as_str);
        let count = |words: String| match self.total_nodes {
            1 => format!("{words} (1 node)"),
            several => format!("{words} ({several} nodes)"),
        };
        if let Some(node) = asked("node") {
            return node.to_owned();
        }
        for (kind, words) in [("label", "nodes with"), ("group", "group"), ("allocation", "allocation")] {
            if let Some(name) = asked(kind) {
                return count(format!("{words} {name}"));
            }
        }
        self.linked_node_id.clone().unwrap_or_default()
    }

    /// The name of a node of it.
    #[must_use]
    pub fn node_name<'a>(&'a self, node_id: &'a str) -> &'a str {
        let nodes = self.nodes.as_deref().unwrap_or_default();
        nodes.iter().find(|node| node.node_id == node_id).map_or(node_id, |node| node.name.as_str())
    }

    /// What a step is called: by its node too, where there are several.
    #[must_use]
    pub fn step_name(&self, step: &Step) -> String {
        self.name_on_node(step.node_id.as_deref(), &step.step_id)
    }

    /// What a step is called that runs on this node.
    #[must_use]
    pub fn name_on_node(&self, node_id: Option<&str>, step_id: &str) -> String {
        match node_id {
            Some(node_id) if self.total_nodes > 1 => format!("{}/{step_id}", self.node_name(node_id)),
            _ => step_id.to_owned(),
        }
    }
}

/// An operation's task on one node.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct NodeTask {
    /// The node.
    pub node_id: String,
    /// Its name.
    pub name: String,
    /// Where the task is.
    pub status: String,
    /// Why it is not given to its node yet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waits_for: Vec<Wait>,
    /// Everything else.
    #[serde(flatten)]
    pub rest: Rest,
}

/// Something that whoever asked should know, although it is done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Warning {
    /// Stable.
    pub code: String,
    /// What it is, and what to do.
    pub message: String,
}

/// A reason to wait.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Wait {
    /// Stable.
    pub code: String,
    /// One sentence.
    pub message: String,
}

/// A capability call of a step that its host refused.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DeniedCall {
    /// The step.
    pub step_id: String,
    /// 1 for the first.
    pub attempt: u32,
    /// The capability that was called.
    pub capability: String,
    /// The function of it.
    pub function: String,
    /// The rule that refused.
    pub rule: String,
    /// What the rule allows.
    #[serde(default)]
    pub allows: Vec<String>,
    /// What was wanted.
    #[serde(default)]
    pub subject: String,
    /// Denied calls of the attempt before this one that were not recorded.
    #[serde(default)]
    pub dropped: u64,
    /// The line that would allow it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fix: Option<Fix>,
    /// Everything else.
    #[serde(flatten)]
    pub rest: Rest,
}

/// A step of an operation.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Step {
    /// The node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_id: Option<String>,
    /// Its name.
    pub step_id: String,
    /// Its kind.
    pub kind: String,
    /// The component that implements it.
    pub component: String,
    /// Steps before it.
    #[serde(default)]
    pub needs: Vec<String>,
    /// Where it is.
    pub status: StepStatus,
    /// The latest attempt; 0 when none was started.
    #[serde(default)]
    pub attempt_number: u32,
    /// Milliseconds of the last attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// False when there was nothing to do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changed: Option<bool>,
    /// What it put out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Value>,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
    /// The step before it that failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub because_of: Option<String>,
    /// What became of an attempt whose end nobody saw.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settlement: Option<Settlement>,
    /// Everything else.
    #[serde(flatten)]
    pub rest: Rest,
}

/// A line of a step's log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogLine {
    /// Where to go on after it.
    pub cursor: String,
    /// The node it was written on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_id: Option<String>,
    /// The step that wrote it.
    pub step_id: String,
    /// The attempt that wrote it.
    pub attempt: u32,
    /// RFC 3339, by the node's clock.
    #[serde(default)]
    pub at: Option<String>,
    /// `debug`, `info`, `warn` or `error`.
    pub level: String,
    /// The line.
    pub text: String,
}

/// An event of an operation, as it is followed.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Event {
    /// `operation.progress` and so on.
    pub event: String,
    /// RFC 3339.
    pub at: String,
    /// What it says.
    pub payload: EventPayload,
}

/// What an event says, as far as it is drawn.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct EventPayload {
    /// The node.
    pub node_id: Option<String>,
    /// The step.
    pub current_step_name: Option<String>,
    /// Where the step is.
    pub step_status: Option<StepStatus>,
    /// When its attempt started, RFC 3339, by the node's clock.
    pub step_started_at: Option<String>,
    /// How far it is, 0 to 100.
    pub step_percent: Option<u8>,
    /// What it is doing.
    pub step_message: Option<String>,
    /// The attempt.
    pub attempt_number: Option<u32>,
    /// Milliseconds of the attempt that ended.
    pub duration_ms: Option<u64>,
    /// False when there was nothing to do.
    pub changed: Option<bool>,
    /// Why the attempt, the step or the operation failed.
    pub failure: Option<Failure>,
    /// Milliseconds until the next attempt.
    pub retry_in_ms: Option<u64>,
    /// The step whose failure kept this one from starting.
    pub because_of: Option<String>,
    /// What became of an attempt whose end nobody saw.
    pub settlement: Option<Settlement>,
}

/// A page of a list.
#[derive(Debug, Deserialize)]
pub(super) struct Page<T> {
    pub(super) items: Vec<T>,
    #[serde(default)]
    pub(super) next_cursor: Option<String>,
}
