//! What is done about an operation later: another run, a question, a decision.

use std::collections::BTreeSet;

use fettle_model::name::StepId;
use jiff::Timestamp;
use serde_json::Value;

use crate::id::{NodeId, TaskId};

/// What a new run of an operation is made of.
#[derive(Clone, Debug)]
pub struct NewRun {
    /// Ids for its tasks; one per node of the operation is enough.
    pub task_ids: Vec<TaskId>,
    /// Only on these nodes; none means on all where it did not succeed.
    pub nodes: Option<BTreeSet<NodeId>>,
    /// Steps that run again although they succeeded.
    pub not_reusable: BTreeSet<StepId>,
    /// Whether steps run again of which nobody knows whether they happened.
    pub accept_unknown: bool,
    /// When it must be over.
    pub deadline: Option<Timestamp>,
}

/// A question to the nodes of an operation: whether steps have happened of which nobody knows it.
#[derive(Clone, Debug)]
pub struct NewInquiry {
    /// Ids for its tasks; one per node of the operation is enough.
    pub task_ids: Vec<TaskId>,
    /// Only these nodes; none means all that have such a step.
    pub nodes: Option<BTreeSet<NodeId>>,
}

/// What a person says of a step of which nobody knows whether it happened.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// The node, where there are several.
    pub node_id: Option<NodeId>,
    /// The step.
    pub step_id: StepId,
    /// What it put out; none when it did not happen.
    pub happened: Option<Value>,
}
