//! Which policy bundles count on a node: a real host, a real registry, and what counts for nothing. Each protection is also
//! taken out.

use std::sync::Arc;

use fettle_host::{
    capabilities::credentials::NoIssuer,
    command,
    executor::{Executor, Signals},
    mutation::{Protection, without},
    sandbox::{Limits, Sandbox},
};
use fettle_model::{
    activation::PolicyActivation,
    canonical,
    catalog::Catalog,
    definition::Definition,
    document,
    failure::Failure,
    plan::{self, Plan, Sources},
    reference::Reference,
    task::{Task, TaskOutcome},
};
use fettle_supply::{ArtifactKind, RegistryClient, RegistryOptions, SigningKey, TrustPolicy, testing::TestRegistry};
use serde::Serialize;
use serde_json::{Value, json};

use crate::{agent::settings, common};

const RENDER: &str = r"
operation_type: test.render
version: v1
backend_type: node_agent
input_schema: { type: object }
steps:
  - id: render
    uses: file.render@v1
    with: { path: config/out, template: hello }
    grants: { files: { write: [config] } }
";
const ACTIVATE: &str = include_str!("../../../policies/definitions/policy.activate.v1.yaml");

/// What an administrator signed, and a host that nobody but him may tell anything.
struct World {
    registry: TestRegistry,
    client: RegistryClient,
    key: SigningKey,
    catalog: (Catalog, Reference),
    directory: tempfile::TempDir,
    tasks: std::sync::atomic::AtomicU32,
}

impl World {
    async fn new() -> Self {
        let (registry, key) = (TestRegistry::start(), SigningKey::generate().unwrap());
        let client = RegistryClient::new(RegistryOptions::default()).unwrap();
        let directory = tempfile::tempdir().unwrap();
        let placeholder = registry.repository("none").at(fettle_model::digest::Digest::of(b""));
        let tasks = std::sync::atomic::AtomicU32::new(0);
        let mut world = Self { registry, client, key, catalog: (Catalog::default(), placeholder), directory, tasks };
        for (kind, name) in [("file.render@v1", "file-render"), ("policy.activate@v1", "policy-activate")] {
            let component = world.publish_step(name).await;
            world.catalog.0.steps.insert(kind.parse().unwrap(), component);
        }
        world.catalog.1 = world.sign(ArtifactKind::Catalog, &world.catalog.0).await;
        world
    }

    async fn publish_step(&self, name: &str) -> Reference {
        let sandbox = Sandbox::new(1, Limits::default()).unwrap();
        let compiled = sandbox.compile(common::component(name).into()).await.unwrap();
        let descriptor = serde_json::to_value(sandbox.describe(&compiled).await.unwrap()).unwrap();
        let repository = self.registry.repository(&format!("steps/{name}"));
        let content = common::component(name);
        let reference = self.client.push(ArtifactKind::Step, &repository, content, Some(descriptor)).await.unwrap();
        self.client.sign(&reference, &self.key).await.unwrap();
        reference
    }

    async fn sign<T: Serialize + Sync>(&self, kind: ArtifactKind, document: &T) -> Reference {
        let repository = self.registry.repository(&format!("admin/{}", kind.name()));
        let content = canonical::to_bytes(document).unwrap();
        let reference = self.client.push(kind, &repository, content, None).await.unwrap();
        self.client.sign(&reference, &self.key).await.unwrap();
        reference
    }

    async fn bundle(&self, revision: u64) -> Reference {
        let bundle =
            json!({"revision": revision, "roots": {"config": "config"}, "ceiling": {"files": {"write": ["config"]}}});
        self.sign(ArtifactKind::PolicyBundle, &bundle).await
    }

    async fn activation(&self, revision: u64, bundle: &Reference) -> Reference {
        let document = PolicyActivation { revision, bundles: vec![bundle.clone()], nodes: None, rolls_back: false };
        self.sign(ArtifactKind::PolicyActivation, &document).await
    }

    /// The host, with what earlier ones have left.
    async fn host(&self) -> Executor {
        let mut settings = settings(self.directory.path(), "https://127.0.0.1:9", "unused");
        let trust = TrustPolicy::any_of([("test".to_owned(), self.key.public().clone())]).unwrap();
        std::fs::write(&settings.trust, serde_json::to_vec(&trust).unwrap()).unwrap();
        settings.slots = 1;
        command::executor(&settings).await.unwrap()
    }

    async fn task(&self, definition: &str, policy: &Reference, inputs: Value) -> Task {
        let definition: Definition = document::read(definition).unwrap();
        let signed = self.sign(ArtifactKind::Definition, &definition).await;
        let sources = Sources { definition: signed, catalog: self.catalog.1.clone(), policy: policy.clone() };
        let graph = Arc::new(plan::resolve(sources.clone(), &definition, &self.catalog.0).unwrap());
        let plan_digest = Plan { graph, inputs: inputs.clone() }.digest().unwrap();
        let number = self.tasks.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        serde_json::from_value(json!({
            "task_id": format!("task-{number}"), "operation_id": "o", "project_id": "p", "node_id": "node-1",
            "correlation_id": "c", "sources": sources, "inputs": inputs, "plan_digest": plan_digest
        }))
        .unwrap()
    }

    async fn render(&self, host: &Executor, policy: &Reference) -> TaskOutcome {
        let task = self.task(RENDER, policy, json!({})).await;
        run(host, &task).await
    }

    /// By a bundle that never counts: the compiled one is what it is run by.
    async fn activate(&self, host: &Executor, activation: &Reference) -> TaskOutcome {
        let other = self.sign(ArtifactKind::PolicyBundle, &json!({ "revision": 1000 })).await;
        let task = self.task(ACTIVATE, &other, json!({ "activation": activation })).await;
        run(host, &task).await
    }
}

async fn run(host: &Executor, task: &Task) -> TaskOutcome {
    let epoch = fettle_model::task::Epoch(1);
    host.journal.accept(task, epoch).await.unwrap();
    host.execute(task, &Signals::default(), Arc::new(NoIssuer)).await.unwrap()
}

fn failure(outcome: TaskOutcome) -> Failure {
    let TaskOutcome::Failed { failure, .. } = outcome else { panic!("it was done: {outcome:?}") };
    failure
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bundle_that_does_not_count_runs_nothing_and_without_the_protection_it_would() {
    let world = World::new().await;
    let (old, new) = (world.bundle(1).await, world.bundle(2).await);
    let host = world.host().await;
    assert_eq!(world.render(&host, &old).await, TaskOutcome::Succeeded, "before the first activation");
    // Under a bundle that allows nothing at all, and still: to be told needs no more than what is compiled in.
    let first = world.activation(1, &old).await;
    let denied = failure(world.activate(&host, &first).await);
    assert_eq!(denied.code, "grant.beyond-ceiling", "while every bundle counts, it is run by its own: {denied}");
    let fallback = document::read::<Value>(include_str!("../../../policies/bundles/activation.yaml")).unwrap();
    let fallback = world.sign(ArtifactKind::PolicyBundle, &fallback).await;
    let task = world.task(ACTIVATE, &fallback, json!({ "activation": first })).await;
    assert_eq!(run(&host, &task).await, TaskOutcome::Succeeded);
    assert_eq!(world.activate(&host, &world.activation(2, &new).await).await, TaskOutcome::Succeeded);
    let refused = failure(world.render(&host, &old).await);
    assert_eq!(refused.code, "policy.not-active");
    assert!(refused.message.contains(&new.digest.to_string()), "{refused}");
    assert_eq!(world.render(&host, &new).await, TaskOutcome::Succeeded);
    let _out = without(Protection::PolicyBundlesCount);
    assert_eq!(world.render(&host, &old).await, TaskOutcome::Succeeded);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_that_somebody_changed_lets_nothing_count_and_without_the_protection_it_would() {
    let world = World::new().await;
    let (old, new) = (world.bundle(1).await, world.bundle(2).await);
    let host = world.host().await;
    let fallback = document::read::<Value>(include_str!("../../../policies/bundles/activation.yaml")).unwrap();
    let fallback = world.sign(ArtifactKind::PolicyBundle, &fallback).await;
    let task = world.task(ACTIVATE, &fallback, json!({ "activation": world.activation(1, &new).await })).await;
    assert_eq!(run(&host, &task).await, TaskOutcome::Succeeded);
    drop(host);
    let path = world.directory.path().join("host/policies.json");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replace(&new.digest.to_string(), &old.digest.to_string())).unwrap();
    let host = world.host().await;
    assert_eq!(failure(world.render(&host, &old).await).code, "policy.damaged");
    assert_eq!(failure(world.render(&host, &new).await).code, "policy.not-active");
    {
        let _out = without(Protection::ActivationsAreVerifiedAgain);
        assert_eq!(world.render(&host, &old).await, TaskOutcome::Succeeded);
    }
    // A newer activation mends it.
    assert_eq!(world.activate(&host, &world.activation(2, &new).await).await, TaskOutcome::Succeeded);
    assert_eq!(world.render(&host, &new).await, TaskOutcome::Succeeded);
    drop(host);
    std::fs::write(&path, "{").unwrap();
    let Err(error) = command::executor(&settings(world.directory.path(), "https://127.0.0.1:9", "unused")).await else {
        panic!("a host started that does not know what counts")
    };
    assert!(format!("{error:#}").contains("policies.json was damaged"), "{error:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_activation_whose_bundles_cannot_be_fetched_changes_nothing() {
    let world = World::new().await;
    let old = world.bundle(1).await;
    let host = world.host().await;
    let gone = world.registry.repository("admin/policy_bundle").at(fettle_model::digest::Digest::of(b"gone"));
    let document = PolicyActivation { revision: 1, bundles: vec![old.clone(), gone], nodes: None, rolls_back: false };
    let activation = world.sign(ArtifactKind::PolicyActivation, &document).await;
    let fallback = document::read::<Value>(include_str!("../../../policies/bundles/activation.yaml")).unwrap();
    let fallback = world.sign(ArtifactKind::PolicyBundle, &fallback).await;
    let mut definition: Value = document::read(ACTIVATE).unwrap();
    definition["steps"][0]["retry"] = json!({ "attempts": 1 });
    let task = world.task(&definition.to_string(), &fallback, json!({ "activation": activation })).await;
    let failed = failure(run(&host, &task).await);
    assert!(failed.code.starts_with("policy.") || failed.code.starts_with("supply."), "{failed}");
    assert_eq!(host.policies.active(), None);
    assert_eq!(world.render(&host, &old).await, TaskOutcome::Succeeded);
}
