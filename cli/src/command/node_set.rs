//! What `fettle node-group` and `fettle allocation` do.

use std::collections::BTreeMap;

use serde_json::json;

use super::{Session, target::PlaneArguments};
use crate::{
    error::CommandError,
    output,
    plane::{NodeSet, NodeSetKind, PlaneClient, PlaneError},
    watch::clean,
};

/// Lists all sets of a kind.
pub(super) async fn list(session: &Session, plane: &PlaneArguments, kind: NodeSetKind) -> Result<(), CommandError> {
    let sets = plane.client(session).await?.node_sets(kind).await?;
    session.show(&sets, |sets| {
        if sets.is_empty() {
            return format!("there is no {}; `fettle {} set` makes one\n", kind.words(), kind.command());
        }
        let row = |set: &NodeSet| vec![clean(&set.name), set.nodes.len().to_string(), set.updated_at.clone()];
        let heading = kind.words().to_uppercase();
        output::table(&[&heading, "NODES", "CHANGED"], &sets.iter().map(row).collect::<Vec<_>>())
    })
}

/// Shows one set with the names of its nodes.
pub(super) async fn show(
    session: &Session,
    plane: &PlaneArguments,
    kind: NodeSetKind,
    name: &str,
) -> Result<(), CommandError> {
    let client = plane.client(session).await?;
    let set = client.node_set(kind, name).await?;
    tell(session, &client, kind, &set).await
}

/// Makes a set, or replaces what it holds.
pub(super) async fn set(
    session: &Session,
    plane: &PlaneArguments,
    kind: NodeSetKind,
    name: &str,
    nodes: &[String],
) -> Result<(), CommandError> {
    let client = plane.client(session).await?;
    let set = client.put_node_set(kind, name, nodes).await?;
    tell(session, &client, kind, &set).await
}

/// Removes a set.
pub(super) async fn delete(
    session: &Session,
    plane: &PlaneArguments,
    kind: NodeSetKind,
    name: &str,
) -> Result<(), CommandError> {
    plane.client(session).await?.delete_node_set(kind, name).await?;
    session.show(&json!({ "name": name, "deleted": true }), |_| format!("{} {name} is gone\n", kind.words()))
}

async fn tell(session: &Session, client: &PlaneClient, kind: NodeSetKind, set: &NodeSet) -> Result<(), CommandError> {
    let names = if session.output.json { BTreeMap::new() } else { names(client).await? };
    session.show(set, |set| text(kind, set, &names))
}

/// The names of nodes, by their ids.
async fn names(client: &PlaneClient) -> Result<BTreeMap<String, String>, PlaneError> {
    Ok(client.nodes().await?.into_iter().map(|node| (node.id, node.name)).collect())
}

fn text(kind: NodeSetKind, set: &NodeSet, names: &BTreeMap<String, String>) -> String {
    let mut nodes: Vec<_> = set.nodes.iter().map(|id| clean(names.get(id).unwrap_or(id))).collect();
    nodes.sort();
    let heading = format!("{} {} of {}, changed {}\n", kind.words(), clean(&set.name), set.project_id, set.updated_at);
    heading + &nodes.iter().map(|name| format!("  {name}\n")).collect::<String>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_told_by_name_and_by_id_when_nobody_knows_their_name() {
        let set: NodeSet = serde_json::from_value(json!({
            "name": "canary", "project_id": "demo", "nodes": ["2", "1", "3"], "updated_at": "2026-11-20T10:00:00Z",
        }))
        .unwrap();
        let names =
            BTreeMap::from([("1", "gpu-18"), ("2", "gpu-17")].map(|(id, name)| (id.to_owned(), name.to_owned())));
        let told = text(NodeSetKind::Group, &set, &names);
        assert_eq!(told, "node group canary of demo, changed 2026-11-20T10:00:00Z\n  3\n  gpu-17\n  gpu-18\n");
    }
}
