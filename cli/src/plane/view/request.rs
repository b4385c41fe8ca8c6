//! What the plane is asked.

use serde::Serialize;
use serde_json::Value;

/// An operation that is asked for.
#[derive(Clone, Debug, Serialize)]
pub struct NewOperation {
    /// Name of the operation type.
    pub operation_type: String,
    /// Its version.
    pub version: String,
    /// Its inputs.
    pub inputs: Value,
    /// Where.
    pub target_selector: TargetSelector,
    /// The same request with the same key makes one operation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
    /// 0 to 9; the higher goes first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<u8>,
    /// The longest that it may take.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<u64>,
    /// How many nodes may work on it at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_parallel_nodes: Option<u32>,
    /// How many nodes may fail before no further node is started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure_budget: Option<u32>,
}

/// Which nodes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TargetSelector {
    /// One, by name or id.
    Node(String),
    /// All of which an expression is true.
    Label(String),
    /// Those of a node group.
    Group(String),
    /// Those of an allocation.
    Allocation(String),
}

impl TargetSelector {
    /// What people call it.
    #[must_use]
    pub fn words(&self) -> String {
        match self {
            Self::Node(name) => name.clone(),
            Self::Label(expression) => format!("nodes with {expression}"),
            Self::Group(name) => format!("group {name}"),
            Self::Allocation(name) => format!("allocation {name}"),
        }
    }
}

/// Another run of an operation.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Retry {
    /// Only on these nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nodes: Option<Vec<String>>,
    /// Whether steps run again of which nobody knows whether they happened.
    pub accept_unknown: bool,
    /// The longest that the new run may take.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<u64>,
}

/// Whose nodes are asked about steps of which nobody knows whether they happened.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ForceProbe {
    /// Only these.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nodes: Option<Vec<String>>,
}

/// What a person says of a step of which nobody knows whether it happened.
#[derive(Clone, Debug, Serialize)]
pub struct Recover {
    /// The step.
    pub step_id: String,
    /// The node, where there are several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// `done` or `not_done`.
    pub outcome: &'static str,
    /// What the step put out, where it is done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<Value>,
    /// `continue` or `stop`.
    pub then: &'static str,
}
