//! What a node never runs: unsigned, signed by somebody else, changed, not what was planned.

use fettle_model::{catalog::Catalog, name::StepKind};
use fettle_supply::{ArtifactKind, SigningKey};
use fettle_tests::{Fleet, Supply, fleet::step};
use serde_json::{Value, json};

use crate::{NOOP, POLICY, PROGRAMS};

/// Registers a catalog whose `noop@v1` is this reference; the plane trusts everything needed.
async fn publish_with(supply: &Supply, component: fettle_model::reference::Reference) -> Value {
    let kind: StepKind = "noop@v1".parse().unwrap();
    let catalog = Catalog { steps: [(kind, component)].into() };
    let mut sources = supply.publish(NOOP, POLICY).await;
    sources["catalog"] = json!(supply.publish_document(ArtifactKind::Catalog, "admin/catalog", &catalog).await);
    sources
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unsigned_component_is_refused_when_its_definition_is_registered() {
    let supply = Supply::with(&[]).await;
    let unsigned = supply.push_step("noop").await;
    let fleet = Fleet::start(PROGRAMS, &supply.trust).await;
    let (status, problem) = fleet.try_register(&publish_with(&supply, unsigned).await).await;
    assert_eq!(status.as_u16(), 422, "{problem:#}");
    assert!(problem.to_string().contains("UNSIGNED"), "{problem:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_does_not_run_what_only_the_plane_trusts() {
    // The plane trusts a second key; the node does not.
    let supply = Supply::with(&[]).await;
    let other = SigningKey::generate().unwrap();
    let step = supply.push_step("noop").await;
    supply.client.sign(&step, &other).await.unwrap();
    let both = supply.directory().join("both.json");
    let keys = [("test".to_owned(), supply.key.public().clone()), ("other".to_owned(), other.public().clone())];
    std::fs::write(&both, serde_json::to_vec(&fettle_supply::TrustPolicy::any_of(keys).unwrap()).unwrap()).unwrap();
    let mut fleet = Fleet::prepare(PROGRAMS, &both).await;
    fleet.planes.start().await;
    fleet.host_trust = supply.trust.clone();
    fleet.start_host();
    fleet.node_online().await;
    fleet.register(&publish_with(&supply, step).await).await;
    let operation = fleet.run("test.noop", &json!({})).await;
    assert_eq!(operation["status"], "failed", "{operation:#}");
    assert_eq!(operation["failure"]["code"], "supply.untrusted", "{operation:#}");
    assert!(operation["failure"]["message"].as_str().unwrap().contains("UNTRUSTED"), "{operation:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_component_that_is_denied_while_the_node_runs_is_refused_at_once() {
    let supply = Supply::with(&["noop"]).await;
    let mut fleet = Fleet::prepare(PROGRAMS, &supply.trust).await;
    fleet.host_trust = supply.directory().join("node.json");
    std::fs::copy(&supply.trust, &fleet.host_trust).unwrap();
    fleet.planes.start().await;
    fleet.start_host();
    fleet.node_online().await;
    fleet.register(&supply.publish(NOOP, POLICY).await).await;
    let operation = fleet.run("test.noop", &json!({ "time": "first" })).await;
    assert_eq!(operation["status"], "succeeded", "{operation:#}");
    // The component was verified, is compiled and in memory; nothing is restarted.
    deny(&fleet.host_trust, "noop");
    let operation = fleet.run("test.noop", &json!({ "time": "second" })).await;
    assert_eq!(operation["status"], "failed", "{operation:#}");
    assert_eq!(operation["failure"]["code"], "supply.untrusted", "{operation:#}");
    assert!(operation["failure"]["message"].as_str().unwrap().contains("CVE-2026-0001"), "{operation:#}");
}

/// An operation that waits, and then does nothing.
const WAIT: &str = r"
operation_type: test.wait
version: v1
backend_type: node_agent
input_schema: { type: object }
steps:
  - id: wait
    uses: command.exec_allowlisted@v1
    with: { profile: sleep, arguments: { seconds: 4 } }
    grants: { exec: { profiles: [sleep] } }
  - id: nothing
    uses: noop@v1
    needs: [wait]
";

#[tokio::test(flavor = "multi_thread")]
async fn a_component_that_is_denied_while_its_task_runs_is_not_started() {
    let supply = Supply::with(&["noop", "command-exec-allowlisted"]).await;
    let mut fleet = Fleet::prepare(PROGRAMS, &supply.trust).await;
    fleet.host_trust = supply.directory().join("node.json");
    std::fs::copy(&supply.trust, &fleet.host_trust).unwrap();
    fleet.planes.start().await;
    fleet.start_host();
    fleet.node_online().await;
    fleet.register(&supply.publish(WAIT, POLICY).await).await;
    let id = fleet.submit("test.wait", &json!({})).await;
    fleet.until(&id, |operation| operation["steps"][0]["status"] == "running").await;
    deny(&fleet.host_trust, "noop");
    let operation = fleet.ended(&id).await;
    assert_eq!(operation["status"], "failed", "{operation:#}");
    assert_eq!(step(&operation, "wait")["status"], "succeeded", "{operation:#}");
    assert!(operation["failure"]["message"].as_str().unwrap().contains("CVE-2026-0001"), "{operation:#}");
}

/// Adds a component to the deny list of a trust policy.
fn deny(trust: &std::path::Path, name: &str) {
    let component = fettle_model::digest::Digest::of(&fettle_tests::supply::component(name));
    let mut policy: Value = serde_json::from_slice(&std::fs::read(trust).unwrap()).unwrap();
    policy["deny"] = json!([{ "digest": component, "reason": "CVE-2026-0001" }]);
    std::fs::write(trust, policy.to_string()).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_component_that_was_changed_in_the_registry_is_refused() {
    let supply = Supply::with(&["noop"]).await;
    let fleet = Fleet::start(PROGRAMS, &supply.trust).await;
    fleet.register(&supply.publish(NOOP, POLICY).await).await;
    // The plane has fetched it; the node fetches it now.
    supply.registry.corrupt(&fettle_model::digest::Digest::of(&fettle_tests::supply::component("noop")));
    let operation = fleet.run("test.noop", &json!({})).await;
    assert_eq!(operation["status"], "failed", "{operation:#}");
    assert_eq!(operation["failure"]["code"], "supply.malformed", "{operation:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_grant_beyond_the_ceiling_is_refused_when_its_definition_is_registered() {
    let supply = Supply::with(&["file-render", "noop"]).await;
    let fleet = Fleet::start(PROGRAMS, &supply.trust).await;
    let policy = POLICY.replace("files: { write: [models, config] }", "files: { write: [models] }");
    let (status, problem) = fleet.try_register(&supply.publish(crate::RENDER, &policy).await).await;
    assert_eq!(status.as_u16(), 422, "{problem:#}");
    let sentence = "the policy bundle does not allow `files.write: config`; to allow it, write `write: [models, config]` \
                    under `ceiling.files` of the policy bundle";
    assert!(problem.to_string().contains(sentence), "{problem:#}");
}
