//! A node as it is shown.

use std::collections::BTreeMap;

use fettle_store::node::Node;
use jiff::Timestamp;
use serde::Serialize;
use utoipa::ToSchema;

use crate::state::State;

/// A node.
#[derive(Serialize, ToSchema)]
pub(crate) struct NodeView {
    /// Its id.
    id: String,
    /// Its name.
    name: String,
    /// `online` or `offline`, by its heartbeats.
    status: &'static str,
    /// The project it belongs to; absent when it is common to all.
    #[serde(skip_serializing_if = "Option::is_none")]
    project_id: Option<String>,
    /// What it has: `gpu.vendor` -> `nvidia`.
    capabilities: BTreeMap<String, String>,
    /// What its operator calls it by: `region` -> `eu`.
    labels: BTreeMap<String, String>,
    /// Tasks it executes at once.
    slots: u32,
    /// Tasks it holds now.
    running_tasks: u32,
    /// Version of its host program.
    host_version: String,
    /// RFC 3339.
    registered_at: String,
    /// RFC 3339; absent right after it joined.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_heartbeat_at: Option<String>,
}

impl NodeView {
    pub(super) fn new(node: Node, state: &State) -> Self {
        Self {
            id: node.id.to_string(),
            status: if is_online(&node, state.heard_since()) { "online" } else { "offline" },
            project_id: node.owner.map(|owner| owner.project_id.to_string()),
            name: node.facts.name,
            capabilities: node.facts.capabilities,
            labels: node.facts.labels,
            slots: node.facts.slots,
            running_tasks: node.running_tasks,
            host_version: node.facts.host_version,
            registered_at: node.registered_at.to_string(),
            last_heartbeat_at: node.last_heartbeat_at.map(|at| at.to_string()),
        }
    }
}

fn is_online(node: &Node, heard_since: Timestamp) -> bool {
    node.last_heartbeat_at.is_some_and(|last| last >= heard_since)
}
