//! The nodes of an operation as they are shown, with what each waits for.

use fettle_store::operation::{NodeTask, Wait};
use serde::Serialize;
use utoipa::ToSchema;

/// An operation's task on one node, in its newest run.
#[derive(Serialize, ToSchema)]
pub(super) struct NodeTaskView {
    /// The task.
    task_id: String,
    /// The node.
    node_id: String,
    /// Its name.
    name: String,
    /// `ready`, `leased`, `succeeded`, `failed`, `canceled` or `skipped`.
    status: &'static str,
    /// The run of the operation that made the task.
    run: u32,
    /// Why the task is not given to its node yet.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    waits_for: Vec<WaitView>,
}

/// A reason to wait.
#[derive(Serialize, ToSchema)]
pub(super) struct WaitView {
    /// Stable: `node.silent`, `node.full`, `node.capability`, `operation.concurrency`,
    /// `operation.parallel_nodes` or `policy.denied`.
    code: &'static str,
    /// One sentence.
    message: String,
}

impl From<NodeTask> for NodeTaskView {
    fn from(task: NodeTask) -> Self {
        Self {
            task_id: task.id.to_string(),
            node_id: task.node_id.to_string(),
            waits_for: task.waits_for.iter().map(|wait| view(wait, &task.node_name)).collect(),
            name: task.node_name,
            status: task.status.name(),
            run: task.run,
        }
    }
}

fn view(wait: &Wait, node: &str) -> WaitView {
    let (code, message) = match wait {
        Wait::Silent(None) => ("node.silent", format!("node `{node}` was never heard of since it joined")),
        Wait::Silent(Some(last)) => ("node.silent", format!("node `{node}` was last heard of at {last}")),
        Wait::Slots(slots) => ("node.full", format!("node `{node}` executes {slots} tasks already, as many as it may")),
        Wait::Capability { key, accepted, actual } => {
            let accepted = accepted.iter().map(String::as_str).collect::<Vec<_>>().join(" or ");
            let actual = actual.as_deref().unwrap_or("unknown");
            ("node.capability", format!("node `{node}` has {key} {actual}, and {accepted} is needed"))
        }
        Wait::Concurrency { scope, limit } => {
            let place = match *scope {
                "project" => "in this project",
                "tenant" => "in this organisation",
                _ => "on this plane",
            };
            (
                "operation.concurrency",
                format!("{limit} operations of this type are under way {place}, as many as the policy allows"),
            )
        }
        Wait::Policy(message) => ("policy.denied", message.clone()),
        Wait::ParallelNodes(limit) => (
            "operation.parallel_nodes",
            format!("{limit} nodes work on this operation, as many as its request allows at once"),
        ),
    };
    WaitView { code, message }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_reason_says_what_is_waited_for() {
        for (wait, code, words) in [
            (Wait::Silent(None), "node.silent", "never heard"),
            (Wait::Slots(4), "node.full", "executes 4 tasks"),
            (
                Wait::Capability {
                    key: "gpu.vendor".to_owned(),
                    accepted: BTreeSet::from(["amd".to_owned(), "intel".to_owned()]),
                    actual: None,
                },
                "node.capability",
                "gpu.vendor unknown, and amd or intel is needed",
            ),
            (Wait::Concurrency { scope: "tenant", limit: 2 }, "operation.concurrency", "2 operations of this type"),
            (Wait::Policy("not on Sundays".to_owned()), "policy.denied", "not on Sundays"),
            (Wait::ParallelNodes(3), "operation.parallel_nodes", "3 nodes work on"),
        ] {
            let view = view(&wait, "gpu-17");
            assert!(view.code == code && view.message.contains(words), "{}", view.message);
        }
    }
}
