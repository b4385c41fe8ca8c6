//! Laws of sets of nodes.

use super::fixture::{at, node, project, when};
use crate::{
    Store, StoreError,
    id::NodeId,
    node_set::{NodeSet, NodeSetKind},
};

fn set(kind: NodeSetKind, project_name: &str, nodes: Vec<NodeId>, second: i64) -> NodeSet {
    NodeSet { kind, name: "canary".parse().unwrap(), project: project(project_name), nodes, updated_at: at(second) }
}

/// What was put last is there; each kind and each project has its own.
pub async fn a_node_set_holds_what_was_put_last(store: &dyn Store) {
    let (one, two) = (node(store, 1, 1).await.id, node(store, 2, 1).await.id);
    store.ensure_project(project("demo"), when(1)).await.unwrap();
    store.ensure_project(project("other"), when(1)).await.unwrap();
    store.put_node_set(set(NodeSetKind::Group, "demo", vec![one], 2), when(2)).await.unwrap();
    store.put_node_set(set(NodeSetKind::Group, "demo", vec![one, two], 3), when(3)).await.unwrap();
    store.put_node_set(set(NodeSetKind::Allocation, "demo", vec![two], 4), when(4)).await.unwrap();
    let (demo, name) = (project("demo").project_id, "canary".parse().unwrap());
    let group = store.node_set(&demo, NodeSetKind::Group, &name).await.unwrap().unwrap();
    assert_eq!(group, set(NodeSetKind::Group, "demo", vec![one, two], 3));
    assert_eq!(store.node_sets(&demo, NodeSetKind::Group).await.unwrap(), [group]);
    let allocation = store.node_set(&demo, NodeSetKind::Allocation, &name).await.unwrap().unwrap();
    assert_eq!(allocation.nodes, [two]);
    let other = project("other").project_id;
    assert_eq!(store.node_set(&other, NodeSetKind::Group, &name).await.unwrap(), None);
    assert!(store.node_sets(&other, NodeSetKind::Group).await.unwrap().is_empty());
}

/// And only that one.
pub async fn a_node_set_is_gone_once_it_is_deleted(store: &dyn Store) {
    let one = node(store, 1, 1).await.id;
    store.ensure_project(project("demo"), when(1)).await.unwrap();
    for kind in NodeSetKind::ALL {
        store.put_node_set(set(kind, "demo", vec![one], 2), when(2)).await.unwrap();
    }
    let (demo, name) = (project("demo").project_id, "canary".parse().unwrap());
    let other = project("other").project_id;
    let error = store.delete_node_set(&other, NodeSetKind::Group, &name, when(3)).await.unwrap_err();
    assert!(matches!(error, StoreError::NotFound { .. }), "{error}");
    store.delete_node_set(&demo, NodeSetKind::Group, &name, when(3)).await.unwrap();
    assert_eq!(store.node_set(&demo, NodeSetKind::Group, &name).await.unwrap(), None);
    assert!(store.node_set(&demo, NodeSetKind::Allocation, &name).await.unwrap().is_some());
    let error = store.delete_node_set(&demo, NodeSetKind::Group, &name, when(4)).await.unwrap_err();
    assert!(matches!(error, StoreError::NotFound { .. }), "{error}");
}
