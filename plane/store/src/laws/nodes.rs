//! Laws of nodes.

use super::fixture::{at, join_token, joining, node, when};
use crate::{Store, StoreError, id::NodeId, secret::SecretHash};

/// As many nodes join as the token allows.
pub async fn a_join_token_is_used_up(store: &dyn Store) {
    join_token(store, "join", 2).await;
    let hash = SecretHash::of("join");
    for number in 1..=2 {
        store.join_node(joining(number, &format!("n{number}"), 1), hash, when(1)).await.unwrap();
    }
    let third = store.join_node(joining(3, "n3", 1), hash, when(1)).await;
    assert!(matches!(third, Err(StoreError::NotFound { .. })));
    assert_eq!(store.nodes().await.unwrap().len(), 2);
}

/// A node whose registration was committed but never answered can register again.
pub async fn a_lost_answer_does_not_use_a_join_token_up_twice(store: &dyn Store) {
    join_token(store, "join", 1).await;
    let hash = SecretHash::of("join");
    let first = store.join_node(joining(1, "n1", 1), hash, when(1)).await.unwrap();
    let again = store.join_node(joining(2, "n1", 3), hash, when(2)).await.unwrap();
    assert_eq!((again.id, again.facts.slots), (first.id, 3));
    assert_eq!(store.node_by_secret(joining(2, "n1", 1).hash).await.unwrap(), Some(first.id));
    assert_eq!(store.node_by_secret(joining(1, "n1", 1).hash).await.unwrap(), None, "the lost secret opens nothing");
    store.record_heartbeat(first.id, when(3)).await.unwrap();
    let late = store.join_node(joining(4, "n1", 1), hash, when(4)).await;
    assert!(late.is_err(), "a node that was heard of is not taken over");
}

/// A name belongs to its node.
pub async fn a_name_is_not_taken_over(store: &dyn Store) {
    let first = node(store, 1, 1).await;
    let second = node(store, 2, 1).await;
    join_token(store, "join", 1).await;
    let taken = store.join_node(joining(3, &first.facts.name, 1), SecretHash::of("join"), when(1)).await.unwrap_err();
    assert!(matches!(taken, StoreError::Conflict { code: "node.name_taken", .. }), "{taken}");
    let renamed = store.update_node(second.id, first.facts.clone(), when(2)).await.unwrap_err();
    assert!(matches!(renamed, StoreError::Conflict { code: "node.name_taken", .. }), "{renamed}");
    let unknown = store.update_node(NodeId::new(ulid::Ulid::nil()), first.facts.clone(), when(2)).await;
    assert!(matches!(unknown, Err(StoreError::NotFound { .. })));
    store.join_node(joining(3, "free", 1), SecretHash::of("join"), when(3)).await.unwrap();
}

/// Time ends a join token.
pub async fn an_expired_join_token_joins_nobody(store: &dyn Store) {
    join_token(store, "join", 1).await;
    let late = store.join_node(joining(1, "n1", 1), SecretHash::of("join"), when(3600)).await;
    assert!(matches!(late, Err(StoreError::NotFound { .. })));
}

/// A node is as alive as its last heartbeat.
pub async fn a_heartbeat_is_remembered(store: &dyn Store) {
    let joined = node(store, 1, 1).await;
    assert_eq!(joined.last_heartbeat_at, None);
    store.record_heartbeat(joined.id, when(7)).await.unwrap();
    let found = store.node(joined.id).await.unwrap().unwrap();
    assert_eq!(found.last_heartbeat_at, Some(at(7)));
    assert_eq!(store.node_by_name(&joined.facts.name).await.unwrap(), Some(found));
    let unknown = store.record_heartbeat(NodeId::new(ulid::Ulid::nil()), when(7)).await;
    assert!(matches!(unknown, Err(StoreError::NotFound { .. })));
}
