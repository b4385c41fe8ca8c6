//! Several stores over one database, as several planes have them.

use std::{collections::BTreeSet, sync::Arc};

use crate::common::{Heard, Pair, eventually, raw, refusal, sum};
use fettle_model::task::TaskOutcome;
use fettle_store::{
    Store, StoreError,
    audit::AuditStore as _,
    chain::Chain,
    change::Change,
    laws::fixture::{self, all, at, when},
    node::NodeStore as _,
    operation::{Created, OperationStore as _},
    page::Page,
    project::ProjectStore as _,
    task::TaskStore as _,
};
use futures::future::join_all;
use serde_json::json;

/// Ends a leased task as a host does, at whichever store.
async fn finish(store: &dyn Store, node: &fettle_store::node::Node, lease: &fettle_store::task::Lease) {
    let key = fixture::key(node, lease);
    for (sequence, step) in [(1, "first"), (2, "second")] {
        fixture::report(store, key, sequence, fixture::succeeded(step, json!({}))).await;
    }
    store.finish_task(key, TaskOutcome::Succeeded, when(20)).await.unwrap();
}

#[tokio::test]
async fn no_slot_and_no_task_is_given_twice() {
    let Some(pair) = Pair::start().await else { return };
    let node = fixture::node(&pair.first, 1, 3).await;
    for number in 1..=30 {
        fixture::submit(&pair.second, number, &node).await;
    }
    let mut given = BTreeSet::new();
    while given.len() < 30 {
        let (mut leases, more) =
            tokio::join!(fixture::lease_some(&pair.first, &node, 3, 5), fixture::lease_some(&pair.second, &node, 3, 5));
        leases.extend(more);
        assert!((1..=3).contains(&leases.len()), "{} tasks on 3 slots", leases.len());
        for (number, lease) in leases.iter().enumerate() {
            assert!(given.insert(lease.task_id), "{} was leased twice", lease.task_id);
            let store = if number % 2 == 0 { &pair.second } else { &pair.first };
            finish(store, &node, lease).await;
        }
    }
}

#[tokio::test]
async fn one_key_at_two_stores_makes_one_operation() {
    let Some(pair) = Pair::start().await else { return };
    let node = fixture::node(&pair.first, 1, 1).await;
    pair.first.ensure_project(fixture::project("demo"), when(1)).await.unwrap();
    let asked = (0..40).map(|number| {
        let store = if number % 2 == 0 { &pair.first } else { &pair.second };
        store.create_operation(fixture::new_operation(number, &node, Some("k")), when(1))
    });
    let answers = join_all(asked).await;
    assert_eq!(answers.iter().filter(|answer| matches!(answer, Ok(Created::New(_)))).count(), 1);
    assert_eq!(answers.iter().filter(|answer| matches!(answer, Ok(Created::Repeated(_)))).count(), 39);
}

#[tokio::test]
async fn leases_end_once_however_many_look() {
    let Some(pair) = Pair::start().await else { return };
    let node = fixture::node(&pair.first, 1, 9).await;
    for number in 1..=9 {
        fixture::submit(&pair.first, number, &node).await;
    }
    assert_eq!(fixture::lease_some(&pair.first, &node, 9, 2).await.len(), 9);
    // A plane that starts only prolongs what others hold.
    pair.second.spare_leases(at(50)).await.unwrap();
    pair.second.spare_leases(at(30)).await.unwrap();
    assert_eq!(pair.first.expire_leases(when(49)).await.unwrap(), 0);
    let ended = tokio::join!(pair.first.expire_leases(when(60)), pair.second.expire_leases(when(60)));
    let later = pair.first.expire_leases(when(60)).await.unwrap();
    assert_eq!(ended.0.unwrap() + ended.1.unwrap() + later, 9);
}

#[tokio::test]
async fn what_one_commits_the_others_hear_and_itself_once() {
    let Some(pair) = Pair::start().await else { return };
    let node = fixture::node(&pair.first, 1, 1).await;
    let operation = fixture::submit(&pair.first, 1, &node).await;
    let ready = Change::TaskReady(node.id);
    eventually(|| pair.heard_by_second.has(&ready)).await;
    let lease = fixture::lease(&pair.second, &node, 2).await;
    fixture::acknowledge(&pair.second, &node, &lease, 3).await;
    eventually(|| pair.heard_by_first.has(&Change::Operation(operation.id))).await;
    // What came from the second was told after everything that the first had told.
    assert_eq!(pair.heard_by_first.count(&ready), 1);
    pair.first.cancel_operation(&operation.project.project_id, operation.id, when(4)).await.unwrap();
    eventually(|| pair.heard_by_second.has(&Change::CancelRequested(node.id))).await;
}

#[tokio::test]
async fn the_trail_of_several_stores_is_one_chain_without_a_gap() {
    let Some(pair) = Pair::start().await else { return };
    let asked = (0..100).map(|number| {
        let store = if number % 2 == 0 { &pair.first } else { &pair.second };
        store.record_refusal(refusal(&number.to_string()), when(1))
    });
    join_all(asked).await.into_iter().for_each(|answer| answer.unwrap());
    let rows = pair.first.audit(all()).await.unwrap();
    assert_eq!(rows.iter().map(|row| row.sequence).collect::<Vec<_>>(), (1..=100).collect::<Vec<_>>());
    let mut chain = Chain::default();
    rows.iter().try_for_each(|row| chain.follow(row)).unwrap();
    assert_eq!(chain.rows(), (100, 0));
}

/// A follower asks for what comes after the last number it saw. So what commits later must have a higher number,
/// however early its verb was run.
#[tokio::test]
async fn a_follower_misses_nothing_of_a_transaction_that_takes_long() {
    let Some(pair) = Pair::start().await else { return };
    let node = fixture::node(&pair.first, 1, 1).await;
    let mut holding = raw(&pair.cluster).await;
    sum(&mut holding, "WITH locked AS (SELECT 1 FROM nodes FOR UPDATE) SELECT count(*) FROM locked", "BEGIN").await;
    let slow = async {
        // Both are in the queue before the writer looks, so they are one transaction: the row that the first
        // writes waits for what the second waits for.
        tokio::join!(pair.first.record_refusal(refusal("slow"), when(2)), pair.first.record_heartbeat(node.id, when(2)))
    };
    let fast = async {
        let waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted";
        while sum(&mut holding, waiting, "SELECT 1").await == 0 {
            tokio::task::yield_now().await;
        }
        pair.second.record_refusal(refusal("fast"), when(2)).await.unwrap();
        let seen = pair.second.audit(all()).await.unwrap();
        assert_eq!(seen.last().unwrap().resource_name, "fast");
        sum(&mut holding, "SELECT 1::bigint", "ROLLBACK").await;
        seen.last().unwrap().sequence
    };
    let ((refused, heard), last) = tokio::join!(slow, fast);
    refused.and(heard).unwrap();
    let rest = pair.second.audit(Page { after: Some(last), size: 10 }).await.unwrap();
    assert_eq!(rest.iter().map(|row| row.resource_name.as_str()).collect::<Vec<_>>(), ["slow"]);
}

/// Each transaction locks what the other one needs: the server ends one of them, and it is run again.
#[tokio::test]
async fn stores_that_wait_for_each_other_both_get_through() {
    let Some(pair) = Pair::start().await else { return };
    let (one, other) = (fixture::node(&pair.first, 1, 1).await, fixture::node(&pair.first, 2, 1).await);
    for _ in 0..5 {
        let answers = tokio::join!(
            pair.first.record_heartbeat(one.id, when(3)),
            pair.first.record_heartbeat(other.id, when(3)),
            pair.second.record_heartbeat(other.id, when(3)),
            pair.second.record_heartbeat(one.id, when(3)),
        );
        answers.0.and(answers.1).and(answers.2).and(answers.3).unwrap();
    }
}

#[tokio::test]
async fn a_refused_verb_leaves_the_others_of_its_commit_alone() {
    let Some(pair) = Pair::start().await else { return };
    let heard = Arc::<Heard>::clone(&pair.heard_by_second);
    let other = fettle_store::project::Project { org_id: "other".parse().unwrap(), ..fixture::project("a") };
    fixture::join_token(&pair.first, "join", 5).await;
    let taken = fixture::joining(2, "n", 1);
    let hash = fettle_store::secret::SecretHash::of("join");
    pair.first.join_node(fixture::joining(1, "n", 1), hash, when(1)).await.unwrap();
    pair.first.record_heartbeat(fixture::joining(1, "n", 1).id, when(1)).await.unwrap();
    let answers = tokio::join!(
        pair.first.ensure_project(fixture::project("a"), when(1)),
        pair.first.ensure_project(other, when(1)),
        pair.first.join_node(taken, hash, when(2)),
        pair.first.ensure_project(fixture::project("b"), when(1)),
    );
    assert!(answers.0.is_ok() && answers.3.is_ok());
    assert!(matches!(answers.1, Err(StoreError::Conflict { code: "project.other_organisation", .. })));
    assert!(matches!(answers.2, Err(StoreError::Conflict { code: "node.name_taken", .. })));
    let actions: Vec<String> = pair.first.audit(all()).await.unwrap().into_iter().map(|row| row.action).collect();
    assert_eq!(actions, ["join_token.create", "node.join", "project.create", "project.create"]);
    assert_eq!(heard.count(&Change::Everything), 0);
}
