//! What a plane that was taken over tries: it has every key of a plane, nodes are connected to it, and it signs its
//! tasks as it should. What it cannot do is sign what administrators sign.

use std::{path::Path, sync::Arc};

use fettle_host::{
    command::{self, Run},
    executor::CANCEL_GRACE,
    refusals,
};
use fettle_identity::Role;
use fettle_model::{
    assignment::Assignment,
    canonical,
    catalog::Catalog,
    definition::Definition,
    document,
    failure::Failure,
    plan::{self, Sources},
    policy::PolicyBundle,
    reference::Reference,
    task::{Epoch, Task},
};
use fettle_supply::{ArtifactKind, SignatureFormat, SigningKey};
use fettle_tests::{Supply, eventually, supply::write_trust};
use fettle_wire::node::pull_response::Response;
use serde::Serialize;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use crate::taken_over::{self, Gives, NODE, Outcome, PATIENCE, Says, Script, certified, introduction, sealed, today};

const DEFINITION: &str = r#"
operation_type: test.render
version: v1
backend_type: node_agent
input_schema:
  type: object
  required: [text]
  additionalProperties: false
  properties: { text: { type: string, maxLength: 10 } }
steps:
  - id: render
    uses: file.render@v1
    with: { path: config/out, template: "${{ inputs.text }}" }
    grants: { files: { write: [config] } }
"#;

const POLICY: &str = r"
revision: 1
roots: { config: config, models: models }
ceiling:
  files: { write: [config] }
egress: { private: { '127.0.0.1': [127.0.0.1/32], localhost: [127.0.0.0/8, '::1/128'] } }
";

/// What administrators signed, and where.
pub(super) struct Signed {
    pub(super) supply: Supply,
    definition: Definition,
    pub(super) policy: PolicyBundle,
    pub(super) sources: Sources,
}

impl Signed {
    pub(super) async fn new() -> Self {
        let supply = Supply::with(&["file-render", "noop", "policy-activate"]).await;
        let definition: Definition = document::read(DEFINITION).unwrap();
        let policy: PolicyBundle = document::read(POLICY).unwrap();
        let sources = Sources {
            definition: supply.publish_document(ArtifactKind::Definition, "admin/definition", &definition).await,
            catalog: supply.publish_document(ArtifactKind::Catalog, "admin/catalog", &supply.catalog).await,
            policy: supply.publish_document(ArtifactKind::PolicyBundle, "admin/policy", &policy).await,
        };
        Self { supply, definition, policy, sources }
    }

    /// Publishes a document that no administrator signed.
    pub(super) async fn unsigned<T: Serialize + Sync>(&self, kind: ArtifactKind, document: &T) -> Reference {
        self.pushed("attacker/unsigned", kind, document).await
    }

    /// The same with a signature by a key that nobody trusts.
    pub(super) async fn signed_by_the_plane<T: Serialize + Sync>(&self, kind: ArtifactKind, document: &T) -> Reference {
        let reference = self.pushed("attacker/signed", kind, document).await;
        self.supply.client.sign(&reference, &SigningKey::generate().unwrap()).await.unwrap();
        reference
    }

    async fn pushed<T: Serialize + Sync>(&self, repository: &str, kind: ArtifactKind, document: &T) -> Reference {
        let content = canonical::to_bytes(document).unwrap();
        self.supply.client.push(kind, &self.supply.registry.repository(repository), content, None).await.unwrap()
    }

    /// What the plane asks for: as it should be, or as these documents would have it.
    pub(super) fn task(&self, sources: Sources, definition: &Definition, catalog: &Catalog, inputs: Value) -> Task {
        let plan = plan::resolve(sources.clone(), definition, catalog).unwrap();
        let plan = plan::Plan { graph: Arc::new(plan), inputs: inputs.clone() };
        Task {
            task_id: "01K0000000000000000000TASK".to_owned(),
            operation_id: "01K00000000000000000000PER".to_owned(),
            project_id: "p".to_owned(),
            node_id: NODE.to_owned(),
            correlation_id: "c".to_owned(),
            sources,
            inputs,
            plan_digest: plan.digest().unwrap(),
            accepted: [].into(),
            inquire: [].into(),
            org_id: None,
            trace_parent: None,
        }
    }

    pub(super) fn honest(&self, inputs: Value) -> Task {
        self.of_sources(self.sources.clone(), inputs)
    }

    /// The same by these sources, which may have another policy bundle.
    pub(super) fn of_sources(&self, sources: Sources, inputs: Value) -> Task {
        self.task(sources, &self.definition, &self.supply.catalog, inputs)
    }
}

/// How one host took what the plane asked for.
pub(super) struct Taken {
    pub(super) outcomes: Vec<Outcome>,
    pub(super) refused: Vec<refusals::Record>,
    files: Vec<String>,
}

/// A new host is given these tasks, signed as they should be. It is started again before each.
pub(super) async fn given(signed: &Signed, tasks: Vec<Task>) -> Taken {
    let (authority, directory) = (taken_over::authority(), tempfile::tempdir().unwrap());
    let mut outcomes = Vec::new();
    for task in tasks {
        let signer = certified(&authority, &Role::TaskSigner, today());
        let script: Script = Arc::new(move |challenge| {
            let (task, challenge) = (task.clone(), hex::encode(challenge));
            let assignment = Assignment { task, epoch: Epoch(1), challenge, number: 1, issued_at: 0 };
            vec![introduction(&signer), Response::Lease(sealed(&signer, &assignment))]
        });
        let taken_over::Open { plane, address, join_token, .. } = taken_over::open(authority.clone(), script).await;
        plane.says.send_replace(Says::Held);
        let settings = settings(&directory, &signed.supply.trust, &address, &join_token);
        // The one before may still hold the directory for a moment.
        let started = eventually("the host to start", PATIENCE, async || command::start(&settings).await.ok());
        let agent = started.await;
        let stop = CancellationToken::new();
        let running = tokio::spawn(agent.run(stop.clone()));
        let mut told = plane.outcomes.subscribe();
        let told = tokio::time::timeout(PATIENCE, told.wait_for(|outcomes| !outcomes.is_empty())).await;
        outcomes.push(told.unwrap().unwrap()[0].clone());
        stop.cancel();
        running.await.unwrap().unwrap();
    }
    let host = directory.path().join("host");
    let files = std::fs::read_dir(host.join("files/config")).into_iter().flatten();
    let files = files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
    Taken { outcomes, refused: refusals::read(&host).unwrap(), files }
}

fn settings(directory: &TempDir, trust: &Path, plane: &str, join: &str) -> Run {
    let token = directory.path().join("token");
    std::fs::write(&token, join).unwrap();
    Run {
        plane: plane.to_owned(),
        data: directory.path().join("host"),
        trust: trust.to_owned(),
        trusted_root: None,
        name: Some(NODE.to_owned()),
        join_token_file: Some(token),
        policies: None,
        key_file: None,
        authority: None,
        label: Vec::new(),
        slots: 1,
        concurrency: 1,
        cancel_grace: CANCEL_GRACE,
        keep_cassettes: 1,
        keep_cassettes_megabytes: 1,
        code_cache_megabytes: 0,
        plain_http: Vec::new(),
        http_authority: Vec::new(),
        oci_layout: Vec::new(),
        nvml_library: None,
        nvml_environment: Vec::new(),
        kernel_log: "/dev/null".into(),
        telemetry: fettle_telemetry::Options::default(),
    }
}

pub(super) fn failure(outcome: &Outcome) -> Failure {
    let Outcome::Failed(failure) = outcome else { unreachable!("it was done") };
    serde_json::from_str(failure).unwrap()
}

/// The task is refused with this reason, which is written down on the node; nothing of it happened.
async fn refused(signed: &Signed, code: &str, task: Task) {
    let id = task.task_id.clone();
    let taken = given(signed, vec![task]).await;
    let failure = failure(&taken.outcomes[0]);
    assert_eq!(failure.code, code, "{}", failure.message);
    let [record] = taken.refused.as_slice() else { unreachable!("{code}: {:?}", taken.refused) };
    assert_eq!((record.code.as_str(), record.about.task_id.as_deref()), (code, Some(id.as_str())));
    assert_eq!(refusals::first_broken(&taken.refused), None);
    assert!(taken.files.is_empty(), "{code}: {:?}", taken.files);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_administrators_signed_is_done_when_a_plane_asks_for_it() {
    let signed = Signed::new().await;
    let taken = given(&signed, vec![signed.honest(json!({ "text": "hello" }))]).await;
    assert_eq!(taken.outcomes, [Outcome::Completed]);
    assert_eq!((taken.files, taken.refused), (vec!["out".to_owned()], Vec::new()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bundle_of_profiles_older_than_one_that_the_node_has_obeyed_is_refused_where_the_trust_policy_says_so() {
    let signed = Signed::new().await;
    let mut bundles = Vec::new();
    for version in ["1.0", "2.0"] {
        let mut bundle = signed.policy.clone();
        bundle.revision = version.starts_with('2').into();
        let reference = signed.unsigned(ArtifactKind::PolicyBundle, &bundle).await;
        let says = [("fettle.name", "fettle/policy"), ("fettle.version", version)];
        let says = says.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        signed.supply.client.sign_as(&reference, &signed.supply.key, SignatureFormat::Cosign, &says).await.unwrap();
        bundles.push(reference);
    }
    let task = |policy: &Reference, id: &str| {
        let sources = Sources { policy: policy.clone(), ..signed.sources.clone() };
        let task = signed.task(sources, &signed.definition, &signed.supply.catalog, json!({ "text": "hello" }));
        Task { task_id: id.to_owned(), ..task }
    };
    let newer_then_older = || vec![task(&bundles[1], "first"), task(&bundles[0], "second")];
    let taken = given(&signed, newer_then_older()).await;
    assert_eq!(taken.outcomes, [Outcome::Completed, Outcome::Completed], "nothing keeps it out by itself");
    let mut trust: Value = serde_json::from_slice(&std::fs::read(&signed.supply.trust).unwrap()).unwrap();
    trust["policy_bundle"]["versions"] = json!({ "neverOlder": true });
    std::fs::write(&signed.supply.trust, trust.to_string()).unwrap();
    let taken = given(&signed, newer_then_older()).await;
    assert_eq!(taken.outcomes[0], Outcome::Completed);
    assert_eq!(failure(&taken.outcomes[1]).code, "supply.untrusted", "{}", failure(&taken.outcomes[1]).message);
    assert_eq!(taken.refused[0].about.task_id.as_deref(), Some("second"));
}

#[tokio::test(flavor = "multi_thread")]
async fn inputs_outside_the_signed_schema_are_refused() {
    let signed = Signed::new().await;
    for inputs in
        [json!({ "text": "far too long" }), json!({ "text": "a", "more": 1 }), json!({ "text": 7 }), json!([])]
    {
        refused(&signed, "plan.inputs", signed.honest(inputs)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_definition_that_no_administrator_signed_is_refused() {
    let signed = Signed::new().await;
    let kind = ArtifactKind::Definition;
    let mut forged = signed.definition.clone();
    forged.steps[0].grants = serde_json::from_value(json!({ "files": { "write": ["config", "models"] } })).unwrap();
    let (unsigned, by_plane) = (signed.unsigned(kind, &forged).await, signed.signed_by_the_plane(kind, &forged).await);
    for (code, definition) in [("supply.unsigned", unsigned), ("supply.untrusted", by_plane)] {
        let sources = Sources { definition, ..signed.sources.clone() };
        let task = signed.task(sources, &forged, &signed.supply.catalog, json!({ "text": "hello" }));
        refused(&signed, code, task).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_that_does_not_follow_from_what_was_signed_is_refused() {
    let signed = Signed::new().await;
    let mut wider = signed.definition.clone();
    wider.steps[0].grants = serde_json::from_value(json!({ "files": { "write": ["config", "models"] } })).unwrap();
    // The signed definition, and the plan of another.
    let task = signed.task(signed.sources.clone(), &wider, &signed.supply.catalog, json!({ "text": "hello" }));
    refused(&signed, "plan.mismatch", task).await;
    let mut swapped = signed.honest(json!({ "text": "hello" }));
    swapped.inputs = json!({ "text": "other" });
    refused(&signed, "plan.mismatch", swapped).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_grant_beyond_the_ceiling_that_was_signed_for_the_node_is_refused() {
    let signed = Signed::new().await;
    // Signed by an administrator of definitions, who is not the one of this node.
    let mut wider = signed.definition.clone();
    wider.steps[0].grants = serde_json::from_value(json!({ "files": { "write": ["config", "models"] } })).unwrap();
    let definition = signed.supply.publish_document(ArtifactKind::Definition, "admin/wider", &wider).await;
    let sources = Sources { definition, ..signed.sources.clone() };
    let task = signed.task(sources, &wider, &signed.supply.catalog, json!({ "text": "hello" }));
    refused(&signed, "grant.beyond-ceiling", task).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_catalog_that_points_a_kind_at_another_signed_component_is_refused() {
    let signed = Signed::new().await;
    let mut catalog = signed.supply.catalog.clone();
    let noop = catalog.steps[&"noop@v1".parse().unwrap()].clone();
    catalog.steps.insert("file.render@v1".parse().unwrap(), noop);
    let kind = ArtifactKind::Catalog;
    let (unsigned, by_plane) =
        (signed.unsigned(kind, &catalog).await, signed.signed_by_the_plane(kind, &catalog).await);
    // Even where an administrator was careless enough to sign it.
    let careless = signed.supply.publish_document(kind, "admin/careless", &catalog).await;
    let all = [("supply.unsigned", unsigned), ("supply.untrusted", by_plane), ("catalog.wrong-kind", careless)];
    for (code, reference) in all {
        let sources = Sources { catalog: reference, ..signed.sources.clone() };
        let task = signed.task(sources, &signed.definition, &catalog, json!({ "text": "hello" }));
        refused(&signed, code, task).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_policy_bundle_that_no_administrator_signed_is_refused() {
    let signed = Signed::new().await;
    let kind = ArtifactKind::PolicyBundle;
    let mut wider = serde_json::to_value(&signed.policy).unwrap();
    wider["ceiling"]["files"]["write"] = json!(["config", "models"]);
    let (unsigned, by_plane) = (signed.unsigned(kind, &wider).await, signed.signed_by_the_plane(kind, &wider).await);
    for (code, policy) in [("supply.unsigned", unsigned), ("supply.untrusted", by_plane)] {
        let sources = Sources { policy, ..signed.sources.clone() };
        let task = signed.task(sources, &signed.definition, &signed.supply.catalog, json!({ "text": "hello" }));
        refused(&signed, code, task).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signed_document_of_one_kind_does_not_pass_as_another() {
    let signed = Signed::new().await;
    let sources = Sources { policy: signed.sources.definition.clone(), ..signed.sources.clone() };
    let task = signed.task(sources, &signed.definition, &signed.supply.catalog, json!({ "text": "hello" }));
    refused(&signed, "supply.malformed", task).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trust_policy_that_the_plane_signed_itself_is_not_obeyed_wherever_it_is_put() {
    // No message carries one: it is a file of the node's administrator. What is left is to pass it as something else.
    let signed = Signed::new().await;
    let own = SigningKey::generate().unwrap();
    let trust = signed.supply.directory().join("plane.json");
    write_trust(&trust, &own);
    let policy: Value = serde_json::from_slice(&std::fs::read(&trust).unwrap()).unwrap();
    for kind in [ArtifactKind::Definition, ArtifactKind::Catalog, ArtifactKind::PolicyBundle] {
        let reference = signed.unsigned(kind, &policy).await;
        signed.supply.client.sign(&reference, &own).await.unwrap();
        let mut task = signed.honest(json!({ "text": "hello" }));
        match kind {
            ArtifactKind::Definition => task.sources.definition = reference,
            ArtifactKind::Catalog => task.sources.catalog = reference,
            _ => task.sources.policy = reference,
        }
        refused(&signed, "supply.untrusted", task).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_of_another_node_or_for_a_key_that_the_plane_has_is_not_shown() {
    let signed = Signed::new().await;
    for (gives, words) in [
        (Gives::AnotherNode, "the certificate is not of node"),
        (Gives::AnotherKey, "is for another key than the one of this host"),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let nothing: Script = Arc::new(|_| Vec::new());
        let opened = taken_over::open(taken_over::authority(), nothing).await;
        opened.plane.gives.send_replace(gives);
        let settings = settings(&directory, &signed.supply.trust, &opened.address, &opened.join_token);
        let agent = command::start(&settings).await.unwrap();
        let ended = tokio::time::timeout(PATIENCE, agent.run(CancellationToken::new())).await.unwrap();
        assert!(ended.is_err(), "{gives:?}");
        let host = directory.path().join("host");
        let [record] = <[_; 1]>::try_from(refusals::read(&host).unwrap()).unwrap();
        assert_eq!(record.code, "node.certificate_unusable");
        assert!(record.reason.contains(words), "{}", record.reason);
        assert!(!host.join("certificate.json").exists(), "{gives:?}");
    }
}
