//! A node as it is shown, and who may see it.

use std::collections::BTreeMap;

use fettle_store::{node::Node, token::Access};
use jiff::{SignedDuration, Timestamp};
use serde::Serialize;
use utoipa::ToSchema;

use crate::state::State;

/// Heartbeats that may be missing before a node counts as offline.
const MISSING: u32 = 3;

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
        let silence = state.config.heartbeat_interval.saturating_mul(MISSING);
        Self {
            id: node.id.to_string(),
            status: if is_online(&node, silence, state.clock.now()) { "online" } else { "offline" },
            project_id: node.owner.map(|owner| owner.project_id.to_string()),
            name: node.facts.name,
            capabilities: node.facts.capabilities,
            slots: node.facts.slots,
            running_tasks: node.running_tasks,
            host_version: node.facts.host_version,
            registered_at: node.registered_at.to_string(),
            last_heartbeat_at: node.last_heartbeat_at.map(|at| at.to_string()),
        }
    }
}

fn is_online(node: &Node, silence: std::time::Duration, now: Timestamp) -> bool {
    let silence = SignedDuration::try_from(silence).unwrap_or(SignedDuration::MAX);
    node.last_heartbeat_at.is_some_and(|last| now.duration_since(last) <= silence)
}

/// Common nodes are seen by everybody, others by those who see their project.
pub(super) fn is_visible(node: &Node, access: &Access) -> bool {
    node.owner.as_ref().is_none_or(|owner| access.role_in(owner).is_some())
}
