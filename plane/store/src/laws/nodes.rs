//! Laws of nodes.

use std::collections::BTreeMap;

use futures::{FutureExt as _, future::join_all};

use super::fixture::{all, at, join_token, joining, new_join_token, node, when};
use crate::{
    Store, StoreError,
    id::NodeId,
    node::{NodeCertificate, NodeKeys},
    secret::SecretHash,
    token::NewJoinToken,
};

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
    let standing = store.node_standing(first.id).await.unwrap().unwrap();
    assert!(standing.keys.count(&joining(2, "n1", 1).hash) && !standing.keys.count(&joining(1, "n1", 1).hash));
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

/// Whoever stops waiting for an answer keeps nobody from the next one, and changes none.
pub async fn a_question_that_is_given_up_spoils_no_other(store: &dyn Store) {
    let [first, second] = [node(store, 1, 1).await, node(store, 2, 1).await];
    for _ in 0..50 {
        // More than any store has connections.
        (0..12).for_each(|_| drop(store.nodes().now_or_never()));
        let names = [&first.facts.name, &second.facts.name].map(|name| store.node_by_name(name));
        drop(futures::future::select_all(names).await);
        let found = join_all([&first, &second].map(|node| store.node_by_name(&node.facts.name))).await;
        let found: Vec<_> = found.into_iter().map(|found| found.unwrap().unwrap().id).collect();
        assert_eq!(found, [first.id, second.id]);
    }
}

/// Time ends a join token.
pub async fn an_expired_join_token_joins_nobody(store: &dyn Store) {
    join_token(store, "join", 1).await;
    let late = store.join_node(joining(1, "n1", 1), SecretHash::of("join"), when(3600)).await;
    assert!(matches!(late, Err(StoreError::NotFound { .. })));
}

fn only(key: &str) -> NodeKeys {
    NodeKeys { key: SecretHash::of(key), asked_by: None }
}

fn certificate(serial: &str) -> NodeCertificate {
    NodeCertificate { serial: serial.to_owned(), authority: "authority".to_owned(), expires_at: at(600) }
}

/// A node's certificate is the one that it was given last.
pub async fn a_certificate_is_remembered(store: &dyn Store) {
    let joined = node(store, 1, 1).await;
    assert_eq!((joined.certificate, joined.revoked_at), (None, None));
    for serial in ["a", "b"] {
        let keys = NodeKeys { key: SecretHash::of(serial), asked_by: Some(SecretHash::of("before")) };
        store.record_certificate(joined.id, keys, certificate(serial), when(2)).await.unwrap();
        assert_eq!(store.node(joined.id).await.unwrap().unwrap().certificate, Some(certificate(serial)));
        assert_eq!(store.node_standing(joined.id).await.unwrap().unwrap().keys, keys);
    }
    let unknown = NodeId::new(ulid::Ulid::nil());
    let nobody = store.record_certificate(unknown, only("c"), certificate("c"), when(2)).await;
    assert!(matches!(nobody, Err(StoreError::NotFound { .. })));
    let rows = store.audit(all()).await.unwrap();
    let given = rows.iter().filter(|row| row.action == "node.certify");
    let names: Vec<String> = given.map(|row| row.resource_name.clone()).collect();
    assert_eq!(names, ["a", "b"].map(|serial| format!("nodes/{}/certificates/{serial}", joined.id)));
}

/// A revoked node stays so.
pub async fn a_revoked_node_gets_no_certificate(store: &dyn Store) {
    let joined = node(store, 1, 1).await;
    let standing = async || store.node_standing(joined.id).await.unwrap().map(|standing| standing.is_revoked);
    assert_eq!(standing().await, Some(false));
    assert_eq!(store.revoke_node(joined.id, when(5)).await.unwrap().revoked_at, Some(at(5)));
    assert_eq!(store.revoke_node(joined.id, when(6)).await.unwrap().revoked_at, Some(at(5)), "once is enough");
    assert_eq!(standing().await, Some(true));
    let refused = store.record_certificate(joined.id, only("k"), certificate("a"), when(7)).await;
    assert!(matches!(refused, Err(StoreError::Conflict { code: "node.revoked", .. })));
    let unknown = NodeId::new(ulid::Ulid::nil());
    assert!(matches!(store.revoke_node(unknown, when(7)).await, Err(StoreError::NotFound { .. })));
    assert_eq!(store.node_standing(unknown).await.unwrap(), None);
}

/// Two nodes with one key could not be told apart.
pub async fn a_key_belongs_to_one_node(store: &dyn Store) {
    let (first, second) = (node(store, 1, 1).await, node(store, 2, 1).await);
    let key = NodeKeys { key: joining(1, "n1", 1).hash, asked_by: None };
    let taken = store.record_certificate(second.id, key, certificate("a"), when(2)).await.unwrap_err();
    assert!(matches!(taken, StoreError::Conflict { code: "node.key_taken", .. }), "{taken}");
    join_token(store, "join", 1).await;
    let copied = store.join_node(joining(1, "copy", 1), SecretHash::of("join"), when(2)).await.unwrap_err();
    assert!(matches!(copied, StoreError::Conflict { code: "node.key_taken", .. }), "{copied}");
    store.record_certificate(first.id, key, certificate("b"), when(3)).await.unwrap();
}

/// What a join token says of a node, its host cannot unsay.
pub async fn labels_of_a_join_token_stay(store: &dyn Store) {
    let labels = BTreeMap::from([("region".to_owned(), "us".to_owned()), ("zone".to_owned(), "a".to_owned())]);
    store.create_join_token(NewJoinToken { labels, ..new_join_token("join", 1) }, when(0)).await.unwrap();
    let mut new = joining(1, "n1", 1);
    new.facts.labels = BTreeMap::from([("region".to_owned(), "eu".to_owned()), ("rack".to_owned(), "7".to_owned())]);
    let joined = store.join_node(new.clone(), SecretHash::of("join"), when(1)).await.unwrap();
    let expected =
        [("rack", "7"), ("region", "us"), ("zone", "a")].map(|(key, value)| (key.to_owned(), value.to_owned()));
    assert_eq!(joined.facts.labels, BTreeMap::from(expected.clone()));
    let updated = store.update_node(joined.id, new.facts, when(2)).await.unwrap();
    assert_eq!(updated.facts.labels, BTreeMap::from(expected));
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
