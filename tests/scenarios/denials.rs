//! A step that tries what it was not granted: it fails with a sentence, and the audit trail says which rule
//! refused what.

use fettle_tests::{
    Fleet, Supply,
    fleet::{PATIENCE, step},
};
use serde_json::Value;

use crate::{DENIED, POLICY, PROGRAMS};

/// The audit rows of denied calls that the plane keeps.
pub(crate) async fn audited(fleet: &Fleet) -> Vec<Value> {
    let administration = fleet.administration().await;
    let rows = administration.audit(None).await.unwrap();
    administration.close().await;
    let denied = rows.into_iter().filter(|row| row.action == "step.denied");
    denied
        .map(|row| {
            let mut details = row.details.unwrap();
            details["correlation_id"] = row.correlation_id.into();
            details["resource_name"] = row.resource_name.into();
            details["actor"] = row.actor.into();
            details
        })
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_that_tries_what_it_was_not_granted_fails_and_is_audited() {
    let supply = Supply::with(&["file-render", "noop"]).await;
    let fleet = Fleet::start(PROGRAMS, &supply.trust).await;
    fleet.register(&supply.publish(DENIED, POLICY).await).await;
    let operation = fleet.run("test.denied", &serde_json::json!({})).await;
    assert_eq!(operation["status"], "failed", "{operation:#}");
    assert_eq!(operation["failure"]["class"], "denied", "{operation:#}");
    let sentence = operation["failure"]["message"].as_str().unwrap();
    assert!(sentence.contains("`config/rendered.txt`") && sentence.contains("grant"), "{sentence}");
    assert!(!fleet.node_file("config/rendered.txt").exists());

    // What `fettle operation show` prints.
    let denials = operation["denials"].as_array().unwrap();
    assert_eq!(denials.len(), 1, "{operation:#}");
    let denial = &denials[0];
    assert_eq!((&denial["step_id"], &denial["rule"]), (&"render".into(), &"files.read".into()), "{denial:#}");
    assert_eq!(denial["subject"], "config/rendered.txt", "{denial:#}");
    assert_eq!(denial["fix"]["at"], "steps[render].grants.files", "{denial:#}");

    // What `fettle operation logs` prints.
    let id = operation["operation_id"].as_str().unwrap();
    let logs = fleet.get(&format!("/operations/{id}/logs")).await.unwrap();
    let told = |line: &Value| line["text"].as_str().is_some_and(|text| text.starts_with("denied: `files."));
    assert!(logs["items"].as_array().unwrap().iter().any(told), "{logs:#}");

    // The audit trail: who, what, which rule, which component, under which correlation id.
    let rows = audited(&fleet).await;
    assert_eq!(rows.len(), 1, "{rows:#?}");
    let row = &rows[0];
    assert_eq!(row["correlation_id"], operation["correlation_id"]);
    assert!(row["actor"].as_str().unwrap().starts_with("node:"), "{row:#}");
    let component = step(&operation, "render")["component"].as_str().unwrap();
    assert!(component.ends_with(row["component"].as_str().unwrap()), "{row:#} {component}");
    assert_eq!(
        (&row["step_id"], &row["attempt"], &row["subject"]),
        (&denial["step_id"], &1.into(), &denial["subject"])
    );

    // And the host's own log, for whoever collects those.
    let log = fleet.logs();
    assert!(log.contains("fettle::audit") && log.contains("\"rule\":\"files.read\""), "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_denial_that_the_plane_was_away_for_is_audited_once_it_is_back() {
    let supply = Supply::with(&["file-render", "noop", "command-exec-allowlisted"]).await;
    let mut fleet = Fleet::start(PROGRAMS, &supply.trust).await;
    let slow = DENIED.replace("steps:\n", "steps:\n  - id: wait\n    uses: command.exec_allowlisted@v1\n    with: { profile: sleep, arguments: { seconds: '2' } }\n    grants: { exec: { profiles: [sleep] } }\n").replace("uses: file.render@v1", "uses: file.render@v1\n    needs: [wait]");
    fleet.register(&supply.publish(&slow, POLICY).await).await;
    let id = fleet.submit("test.denied", &serde_json::json!({})).await;
    fleet.until(&id, |operation| step(operation, "wait")["status"] == "running").await;
    fleet.planes.kill();
    fettle_tests::eventually("the host to have denied it", PATIENCE, async || {
        fleet.logs().contains("a step was denied").then_some(())
    })
    .await;
    fleet.planes.start().await;
    let operation = fleet.ended(&id).await;
    assert_eq!(operation["denials"].as_array().unwrap().len(), 1, "{operation:#}");
    assert_eq!(audited(&fleet).await.len(), 1);
}
