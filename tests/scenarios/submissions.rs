//! What happens to requests: repeated, malformed, more than fit.

use std::{collections::BTreeSet, sync::Arc};

use fettle_tests::{Fleet, Supply};
use serde_json::json;

use crate::{NOOP, POLICY, PROGRAMS, RENDER};

#[tokio::test(flavor = "multi_thread")]
async fn one_key_a_thousand_times_from_ten_clients_makes_one_operation() {
    let supply = Supply::with(&["noop"]).await;
    let fleet = Arc::new(Fleet::start(PROGRAMS, &supply.trust).await);
    fleet.register(&supply.publish(NOOP, POLICY).await).await;
    let clients = (0..10).map(|_| {
        let fleet = Arc::clone(&fleet);
        tokio::spawn(async move {
            let mut ids = BTreeSet::new();
            for _ in 0..100 {
                let (status, answer) = fleet.try_submit("test.noop", &json!({}), "the-same-key").await.unwrap();
                assert!(status.is_success(), "{status}: {answer:#}");
                ids.insert(answer["operation_id"].as_str().unwrap().to_owned());
            }
            ids
        })
    });
    let mut ids = BTreeSet::new();
    for client in clients.collect::<Vec<_>>() {
        ids.extend(client.await.unwrap());
    }
    assert_eq!(ids.len(), 1);
    let listed = fleet.get("/operations").await.unwrap();
    assert_eq!(listed["items"].as_array().unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_key_with_another_body_is_refused() {
    let supply = Supply::with(&["noop"]).await;
    let fleet = Fleet::start(PROGRAMS, &supply.trust).await;
    fleet.register(&supply.publish(NOOP, POLICY).await).await;
    let (first, _) = fleet.try_submit("test.noop", &json!({"a": 1}), "key").await.unwrap();
    let (second, problem) = fleet.try_submit("test.noop", &json!({"a": 2}), "key").await.unwrap();
    assert_eq!((first.as_u16(), second.as_u16()), (201, 409), "{problem:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_inputs_are_all_named_and_nothing_is_made() {
    let supply = Supply::with(&["file-render", "noop"]).await;
    let fleet = Fleet::start(PROGRAMS, &supply.trust).await;
    let definition = RENDER.replace("required: [text], properties: { text: { type: string } }", "additionalProperties: false, required: [text, size], properties: { text: { type: string }, size: { type: integer } }");
    fleet.register(&supply.publish(&definition, POLICY).await).await;
    let (status, problem) = fleet.try_submit("test.render", &json!({"text": 1, "extra": true}), "key").await.unwrap();
    assert_eq!(status.as_u16(), 422, "{problem:#}");
    let violations = problem["violations"].as_array().unwrap();
    assert!(violations.len() >= 3, "{problem:#}");
    assert!(
        violations.iter().any(|violation| violation["pointer"].as_str().unwrap().ends_with("/text")),
        "{problem:#}"
    );
    assert_eq!(fleet.get("/operations").await.unwrap()["items"].as_array().unwrap().len(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn more_operations_than_slots_all_succeed() {
    let supply = Supply::with(&["noop"]).await;
    let fleet = Fleet::start(PROGRAMS, &supply.trust).await;
    fleet.register(&supply.publish(NOOP, POLICY).await).await;
    let mut ids = Vec::new();
    for number in 0..40 {
        ids.push(fleet.submit("test.noop", &json!({"number": number})).await);
    }
    for id in ids {
        assert_eq!(fleet.ended(&id).await["status"], "succeeded");
    }
}
