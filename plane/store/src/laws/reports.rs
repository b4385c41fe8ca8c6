//! Laws of reports: events, results, logs, endings.

use fettle_model::{
    failure::{Failure, FailureClass},
    operation::{OperationStatus, StepOutcome, StepStatus},
    task::{StepEvent, TaskOutcome},
};
use serde_json::json;

use super::fixture::{all, key, logged, report, running, show, started, step, succeeded, when};
use crate::{
    Store, StoreError,
    event::EventKind,
    operation::{Ending, OperationState, StepState},
    page::Page,
    task::{Report, Verdict},
};

/// A repeated report changes nothing.
pub async fn an_event_is_applied_once(store: &dyn Store) {
    let (node, operation, lease) = running(store).await;
    let lease = key(&node, &lease);
    for _ in 0..3 {
        assert_eq!(report(store, lease, 1, started("first")).await, Verdict::Accepted);
        assert_eq!(report(store, lease, 2, logged("first", &["one", "two"])).await, Verdict::Accepted);
    }
    assert_eq!(store.logs(operation.id, None, None, all()).await.unwrap().len(), 2);
    assert_eq!(store.events(operation.id, all()).await.unwrap().len(), 2);
}

/// The first result stands, whatever is reported later and under whichever lease.
pub async fn a_result_is_accepted_once(store: &dyn Store) {
    let (node, operation, first) = running(store).await;
    let lease = key(&node, &first);
    report(store, lease, 1, started("first")).await;
    report(store, lease, 2, succeeded("first", json!("first"))).await;
    report(store, lease, 3, succeeded("first", json!("second"))).await;
    store.expire_leases(when(99)).await.unwrap();
    let second = key(&node, &super::fixture::lease(store, &node, 100).await);
    assert_eq!(report(store, second, 4, started("first")).await, Verdict::Accepted);
    assert_eq!(report(store, second, 5, succeeded("first", json!("third"))).await, Verdict::Accepted);
    let steps = store.steps(operation.id).await.unwrap();
    let StepState::Over { outcome: StepOutcome::Succeeded { output, .. }, .. } = &steps[0].state else {
        panic!("{:?}", steps[0]);
    };
    assert_eq!(output, "first");
    let events = store.events(operation.id, all()).await.unwrap();
    let finished = events.iter().filter(|event| event.payload["step_status"] == "succeeded").count();
    assert_eq!(finished, 1);
}

/// A host that counts from one again loses log lines at worst, never a result.
pub async fn a_result_survives_wrong_counting(store: &dyn Store) {
    let (node, operation, lease) = running(store).await;
    let lease = key(&node, &lease);
    report(store, lease, 50, started("first")).await;
    assert_eq!(report(store, lease, 2, succeeded("first", json!({}))).await, Verdict::Accepted);
    assert_eq!(store.steps(operation.id).await.unwrap()[0].state.status(), StepStatus::Succeeded);
}

/// One bad report does not take the others with it.
pub async fn an_unknown_step_is_refused_alone(store: &dyn Store) {
    let (node, operation, lease) = running(store).await;
    let lease = key(&node, &lease);
    let reports = vec![
        Report { lease, sequence: 1, event: started("first") },
        Report { lease, sequence: 2, event: started("third") },
        Report { lease, sequence: 3, event: logged("third", &["x"]) },
        Report { lease, sequence: 4, event: logged("first", &["x"]) },
    ];
    let verdicts = store.apply_reports(reports, when(20)).await.unwrap();
    assert!(matches!(verdicts[1], Err(StoreError::NotFound { .. })));
    assert!(matches!(verdicts[2], Err(StoreError::NotFound { .. })));
    assert!(verdicts[0].is_ok() && verdicts[3].is_ok());
    assert_eq!(store.steps(operation.id).await.unwrap()[0].state.status(), StepStatus::Running);
    assert_eq!(store.logs(operation.id, None, None, all()).await.unwrap().len(), 1);
}

/// Success is what the steps say, not what the host says.
pub async fn a_task_is_complete_when_every_step_succeeded(store: &dyn Store) {
    let (node, operation, lease) = running(store).await;
    let lease = key(&node, &lease);
    report(store, lease, 1, succeeded("first", json!({}))).await;
    let error = store.finish_task(lease, TaskOutcome::Succeeded, when(20)).await.unwrap_err();
    assert!(matches!(error, StoreError::Conflict { code: "task.step_not_succeeded", .. }), "{error}");
    report(store, lease, 2, succeeded("second", json!({}))).await;
    assert_eq!(store.finish_task(lease, TaskOutcome::Succeeded, when(21)).await.unwrap(), Verdict::Accepted);
    assert_eq!(show(store, &operation).await.state.status(), OperationStatus::Succeeded);
}

/// A repeated end is the same end; another end comes too late.
pub async fn ending_twice_is_ending_once(store: &dyn Store) {
    let (node, operation, lease) = running(store).await;
    let lease = key(&node, &lease);
    report(store, lease, 1, succeeded("first", json!({}))).await;
    report(store, lease, 2, succeeded("second", json!({}))).await;
    for second in 20..23 {
        assert_eq!(store.finish_task(lease, TaskOutcome::Succeeded, when(second)).await.unwrap(), Verdict::Accepted);
    }
    let failed = TaskOutcome::Failed { failure: Failure::new(FailureClass::Permanent, "x", "y"), step_id: None };
    assert_eq!(store.finish_task(lease, failed, when(24)).await.unwrap(), Verdict::Stale);
    assert_eq!(report(store, lease, 2, succeeded("second", json!({}))).await, Verdict::Accepted);
    assert_eq!(report(store, lease, 3, started("second")).await, Verdict::Stale);
    let ends = store.events(operation.id, all()).await.unwrap();
    assert_eq!(ends.iter().filter(|event| event.kind.is_last()).count(), 1);
    assert_eq!(ends.last().map(|event| event.kind), Some(EventKind::Completed));
}

/// After the end every step has a result.
pub async fn a_failure_settles_every_step(store: &dyn Store) {
    let (node, operation, lease) = running(store).await;
    let lease = key(&node, &lease);
    report(store, lease, 1, started("first")).await;
    let failure = Failure::new(FailureClass::Denied, "grant.missing", "it asks for more than it was granted");
    let failed = TaskOutcome::Failed { failure: failure.clone(), step_id: Some(step("first")) };
    store.finish_task(lease, failed, when(20)).await.unwrap();
    let steps = store.steps(operation.id).await.unwrap();
    let statuses: Vec<_> = steps.iter().map(|step| step.state.status()).collect();
    assert_eq!(statuses, [StepStatus::Failed, StepStatus::Skipped]);
    let OperationState::Over { ending: Ending::Failed(found), .. } = show(store, &operation).await.state else {
        panic!("it has failed");
    };
    assert_eq!(found, failure);
}

/// A host cannot cancel on its own.
pub async fn canceled_needs_a_request(store: &dyn Store) {
    let (node, operation, lease) = running(store).await;
    let error = store.finish_task(key(&node, &lease), TaskOutcome::Canceled, when(20)).await.unwrap_err();
    assert!(matches!(error, StoreError::Conflict { code: "task.not_canceled", .. }), "{error}");
    assert_eq!(show(store, &operation).await.state.status(), OperationStatus::Running);
}

/// The outbox tells each operation from its request to its end, with what the contract asks for.
pub async fn the_story_is_told_in_order(store: &dyn Store) {
    let (node, operation, lease) = running(store).await;
    let lease = key(&node, &lease);
    report(store, lease, 1, started("first")).await;
    report(store, lease, 2, StepEvent::Progress { step_id: step("first"), percent: 40, message: Some("half".into()) })
        .await;
    report(store, lease, 3, succeeded("first", json!({}))).await;
    report(store, lease, 4, succeeded("second", json!({}))).await;
    store.finish_task(lease, TaskOutcome::Succeeded, when(30)).await.unwrap();
    let events = store.events(operation.id, all()).await.unwrap();
    let kinds: Vec<_> = events.iter().map(|event| event.kind.name()).collect();
    assert_eq!(
        kinds,
        [
            "operation.requested",
            "operation.progress",
            "operation.progress",
            "operation.progress",
            "operation.progress",
            "operation.completed"
        ]
    );
    assert!(events.is_sorted_by_key(|event| event.sequence));
    let progress = &events[2].payload;
    assert_eq!(
        (&progress["operation_id"], &progress["correlation_id"]),
        (&json!(operation.id.to_string()), &json!("law"))
    );
    assert_eq!((&progress["current_step_index"], &progress["total_steps"]), (&json!(0), &json!(2)));
    assert_eq!((&progress["current_step_name"], &progress["step_status"]), (&json!("first"), &json!("running")));
    assert_eq!((&progress["step_percent"], &progress["step_message"]), (&json!(40), &json!("half")));
    assert!(progress["step_started_at"].is_string());
    let rest = store.events(operation.id, Page { after: Some(events[3].sequence), size: 10 }).await.unwrap();
    assert_eq!(rest, events[4..]);
}

/// Pages join without loss or repetition, for all steps or one.
pub async fn logs_are_paged_by_step(store: &dyn Store) {
    let (node, operation, lease) = running(store).await;
    let lease = key(&node, &lease);
    report(store, lease, 1, logged("first", &["a", "b"])).await;
    report(store, lease, 2, logged("second", &["c"])).await;
    report(store, lease, 3, logged("first", &["d", "e"])).await;
    let (mut after, mut texts) = (None, Vec::new());
    loop {
        let page = store.logs(operation.id, None, None, Page { after, size: 2 }).await.unwrap();
        texts.extend(page.iter().map(|record| record.line.text.clone()));
        match page.last() {
            Some(last) => after = Some(last.sequence),
            None => break,
        }
    }
    assert_eq!(texts, ["a", "b", "c", "d", "e"]);
    let first = store.logs(operation.id, None, Some(&step("first")), all()).await.unwrap();
    assert_eq!(first.iter().map(|record| record.line.text.as_str()).collect::<String>(), "abde");
    assert_eq!(store.steps(operation.id).await.unwrap()[0].last_log.as_deref(), Some("e"));
}

/// A line is bounded, on a character's edge.
pub async fn long_lines_are_cut(store: &dyn Store) {
    let (node, operation, lease) = running(store).await;
    let long = "ä".repeat(20_000);
    report(store, key(&node, &lease), 1, logged("first", &[&long])).await;
    let stored = store.logs(operation.id, None, None, all()).await.unwrap();
    assert_eq!(stored[0].line.text.chars().count(), 8_192);
}

/// A program may print anything; no report of it stands in the way of the next ones.
pub async fn lines_of_any_bytes_are_stored(store: &dyn Store) {
    let (node, operation, lease) = running(store).await;
    let strange = "a\0b \u{1b}[2J \u{fffd} '\"\\";
    report(store, key(&node, &lease), 1, logged("first", &[strange, "c"])).await;
    let stored = store.logs(operation.id, None, None, all()).await.unwrap();
    assert_eq!(stored.len(), 2);
    assert!(stored[0].line.text.starts_with('a') && stored[1].line.text == "c");
}

/// Who did what, where, with which result.
pub async fn mutations_are_audited(store: &dyn Store) {
    let (node, operation, lease) = running(store).await;
    store.cancel_operation(&operation.project.project_id, operation.id, when(7)).await.unwrap();
    store.finish_task(key(&node, &lease), TaskOutcome::Canceled, when(8)).await.unwrap();
    let rows = store.audit(all()).await.unwrap();
    let told: Vec<_> = rows.iter().map(|row| (row.action.as_str(), row.result.as_str())).collect();
    let actions = [
        "join_token.create",
        "node.join",
        "project.create",
        "operation.create",
        "task.lease",
        "operation.cancel",
        "task.cancel",
    ];
    assert_eq!(told, actions.map(|action| (action, "ok")));
    assert!(rows.iter().all(|row| row.correlation_id == "law" && row.actor == "command-line"));
    assert_eq!(rows[3].scope, "default/demo");
}
