//! What a step tries without a grant is refused, and recorded with the rule that refused it.

use std::{sync::Arc, time::Duration};

use crate::common::{self, Heard, TestNode};
use fettle_host::{
    capabilities::{Configured, denials::RECORDED, report},
    clock::Clock,
    sandbox::{Call, Spent},
};
use fettle_model::{definition::ArtifactConstraints, denial::Denial, failure::FailureClass, grant::Grants};
use serde_json::{Value, json};

/// Runs a built component once; answers how it ended and what it was denied.
async fn run(
    name: &str,
    grants: &str,
    constraints: Option<&ArtifactConstraints>,
    input: &Value,
) -> (Result<Value, fettle_model::failure::Failure>, Vec<Denial>) {
    let node = TestNode::new();
    let grants: Grants = fettle_model::document::read(grants).unwrap();
    let step = node.link(name, &grants).await;
    let heard = Arc::new(Heard::default());
    let sink: Arc<dyn report::Sink> = Arc::<Heard>::clone(&heard);
    let capabilities = Configured::new(&node.node, &grants, &node.policy, constraints).unwrap();
    let call = Call {
        context: common::context(),
        capabilities: capabilities.prepare(report::Report::new(sink, Clock::system()), &node.attempt()),
        timeout: Duration::from_secs(60),
        elapsed: Duration::ZERO,
        spent: Spent::default(),
        tape: None,
    };
    let result = step.run(call, &input.to_string()).await;
    let denials = heard.denials.lock().unwrap().clone();
    (result, denials)
}

const GRANTS: &str =
    "{exec: {profiles: [hello]}, files: {read: [other], write: [data]}, facts: {read: [memory]}, gpu: {read: false}}";

#[tokio::test(flavor = "multi_thread")]
async fn every_denial_is_recorded_with_the_rule_that_refused_it() {
    for (input, call, rule, allows, subject) in [
        (
            json!({"mode": "write_file", "path": "other/x", "text": "x"}),
            "files.write",
            "files.write",
            &["data"][..],
            "other/x",
        ),
        (
            json!({"mode": "read_file", "path": "etc/shadow"}),
            "files.read",
            "files.read",
            &["data", "other"],
            "etc/shadow",
        ),
        (json!({"mode": "stat", "path": "etc"}), "files.stat", "files.read", &["data", "other"], "etc"),
        (json!({"mode": "exec", "name": "forever"}), "exec.run", "exec.profiles", &["hello"], "forever"),
        (json!({"mode": "facts", "name": "kernel-log"}), "facts.kernel_log", "facts.read", &["memory"], "kernel-log"),
        (json!({"mode": "gpu"}), "gpu.read", "gpu.read", &["false"], "true"),
    ] {
        let (result, denials) = run("testing", GRANTS, None, &input).await;
        assert_eq!(result.unwrap_err().class, FailureClass::Denied, "{input}");
        assert_eq!(denials.len(), 1, "{input}: {denials:?}");
        let denial = &denials[0];
        assert_eq!(format!("{}.{}", denial.capability, denial.function), call, "{input}");
        assert_eq!((denial.rule.as_str(), denial.subject.as_str()), (rule, subject), "{input}");
        assert_eq!(denial.allows, allows, "{input}");
        assert_eq!((denial.number, denial.dropped), (1, 0), "{input}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transfer_names_whether_the_host_the_repository_or_the_destination_was_refused() {
    let constraints: ArtifactConstraints =
        fettle_model::document::read("{allowed_repositories: ['models/*'], require_signature: false}").unwrap();
    let digest = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    for (reference, rule, subject) in [
        ("localhost:2/models/a", "transfer.hosts", "localhost:2"),
        ("localhost:1/evil/a", "artifact_constraints.allowed_repositories", "evil/a"),
    ] {
        let input = json!({"reference": format!("{reference}@{digest}"), "destination": "data/a"});
        let grants = "{transfer: {hosts: ['localhost:1']}, files: {write: [data]}}";
        let (result, denials) = run("artifact-pull-oci", grants, Some(&constraints), &input).await;
        assert_eq!(result.unwrap_err().class, FailureClass::Denied, "{reference}");
        assert_eq!((denials[0].rule.as_str(), denials[0].subject.as_str()), (rule, subject), "{denials:?}");
        assert_eq!(denials[0].capability, "transfer");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_that_tries_without_end_makes_a_bounded_number_of_records() {
    let input = json!({"mode": "ask", "name": "kernel-log", "count": 10_000});
    let (result, denials) = run("testing", GRANTS, None, &input).await;
    assert_eq!(result, Ok(json!({"answer": 10_000})));
    assert_eq!(denials.len(), RECORDED as usize + 1);
    let last = denials.last().unwrap();
    assert_eq!(u64::from(last.number) + last.dropped, 10_000, "{last:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_allowed_leaves_no_record() {
    let input = json!({"mode": "write_file", "path": "data/x", "text": "x"});
    let (result, denials) = run("testing", GRANTS, None, &input).await;
    assert_eq!((result, denials), (Ok(json!({"answer": true})), Vec::new()));
}
