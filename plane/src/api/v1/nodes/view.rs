//! A node as it is shown.

use std::collections::BTreeMap;

use fettle_store::node::Node;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::state::State;

/// A node.
#[derive(Serialize, ToSchema)]
pub(crate) struct NodeView {
    /// Its id.
    id: String,
    /// Its name.
    name: String,
    /// `online` or `offline`, by its heartbeats; `revoked` when it is not let in any more.
    status: NodeStatus,
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
    /// The certificate it was given last.
    #[serde(skip_serializing_if = "Option::is_none")]
    certificate: Option<CertificateView>,
    /// RFC 3339; when its certificates were revoked.
    #[serde(skip_serializing_if = "Option::is_none")]
    revoked_at: Option<String>,
}

/// A certificate of a node.
#[derive(Serialize, ToSchema)]
pub(crate) struct CertificateView {
    /// In hexadecimal.
    serial: String,
    /// The fingerprint of the authority that signed it.
    authority: String,
    /// RFC 3339.
    expires_at: String,
}

/// Whether something was heard of a node lately.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum NodeStatus {
    /// It sends heartbeats.
    Online,
    /// It does not.
    Offline,
    /// Its certificates count no longer.
    Revoked,
}

impl NodeView {
    pub(super) fn new(node: Node, state: &State) -> Self {
        Self {
            id: node.id.to_string(),
            status: status(&node, state),
            project_id: node.owner.map(|owner| owner.project_id.to_string()),
            name: node.facts.name,
            capabilities: node.facts.capabilities,
            labels: node.facts.labels,
            slots: node.facts.slots,
            running_tasks: node.running_tasks,
            host_version: node.facts.host_version,
            registered_at: node.registered_at.to_string(),
            last_heartbeat_at: node.last_heartbeat_at.map(|at| at.to_string()),
            certificate: node.certificate.map(|certificate| CertificateView {
                serial: certificate.serial,
                authority: certificate.authority,
                expires_at: certificate.expires_at.to_string(),
            }),
            revoked_at: node.revoked_at.map(|at| at.to_string()),
        }
    }
}

/// Whether a node was heard of lately.
pub(super) fn status(node: &Node, state: &State) -> NodeStatus {
    if node.revoked_at.is_some() {
        return NodeStatus::Revoked;
    }
    let heard_since = state.heard_since();
    let is_online = node.last_heartbeat_at.is_some_and(|last| last >= heard_since);
    if is_online { NodeStatus::Online } else { NodeStatus::Offline }
}
