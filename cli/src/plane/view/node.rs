//! Nodes.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Rest;

/// A node.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Node {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// `online`, `offline` or `revoked`.
    pub status: String,
    /// The project it belongs to; absent when it is common to all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project_id: Option<String>,
    /// What it has.
    #[serde(default)]
    pub capabilities: BTreeMap<String, String>,
    /// What its operator calls it by.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// Tasks it executes at once.
    #[serde(default)]
    pub slots: u32,
    /// Tasks it holds now.
    #[serde(default)]
    pub running_tasks: u32,
    /// Version of its host program.
    #[serde(default)]
    pub host_version: String,
    /// RFC 3339; absent right after it joined.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_heartbeat_at: Option<String>,
    /// The certificate it was given last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate: Option<NodeCertificate>,
    /// Everything else.
    #[serde(flatten)]
    pub rest: Rest,
}

/// A certificate of a node.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct NodeCertificate {
    /// In hexadecimal.
    pub serial: String,
    /// The fingerprint of the authority that signed it.
    pub authority: String,
    /// RFC 3339.
    pub expires_at: String,
}
