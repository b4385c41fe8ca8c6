//! No-op steps through the executor, as a host runs them: every limit, a cassette of each attempt, a
//! journal on a disk, synchronised.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use fettle_host::{
    capabilities::credentials::NoIssuer,
    clock::Clock,
    executor::{
        Executor, Shelf, Signals,
        journal::{Bounds, Journal},
        policies::Policies,
    },
    metrics::HostMetrics,
    queue::Pressure,
    refusals::Refusals,
    sandbox::{Limits, Sandbox},
};
use fettle_model::{
    canonical,
    catalog::Catalog,
    definition::Definition,
    plan::{self, Sources},
    policy::PolicyBundle,
    reference::Reference,
    task::{Epoch, Task, TaskOutcome},
};
use fettle_supply::{
    ArtifactKind, ContentStore, RegistryClient, RegistryOptions, SigningKey, Supplier, TrustPolicy,
    testing::TestRegistry,
};

use crate::common::{self, TestNode};

/// Tasks at once and steps of each, a host's defaults (`--slots`, `--concurrency`).
const SLOTS: usize = 4;
const CONCURRENCY: usize = 8;
/// Steps of a task; none needs another.
const STEPS: usize = 64;
/// Tasks of one round.
const TASKS: usize = 16;
/// Attempts of one round.
pub(crate) const ATTEMPTS: u32 = 1024;

/// A host without its agent.
pub(crate) struct Host {
    executor: Executor,
    task: Task,
    next: std::cell::Cell<usize>,
    directory: tempfile::TempDir,
    _registry: TestRegistry,
}

impl Host {
    /// Publishes and signs what a task needs, and prepares it once.
    #[expect(clippy::future_not_send, reason = "a benchmark stays on its thread")]
    pub(crate) async fn start(node: &TestNode) -> Self {
        let (registry, key) = (TestRegistry::start(), SigningKey::generate().expect("a key"));
        let client = RegistryClient::new(RegistryOptions::default()).expect("a client");
        let publish = async |kind, path: &str, content: Vec<u8>, descriptor| {
            let reference = client.push(kind, &registry.repository(path), content, descriptor).await.expect("pushed");
            client.sign(&reference, &key).await.expect("signed");
            reference
        };
        let compiled = node.sandbox.compile(common::component("noop").into()).await.expect("a component");
        let descriptor = node.sandbox.describe(&compiled).await.expect("a descriptor");
        let kind = descriptor.kind.clone();
        let descriptor = Some(serde_json::to_value(descriptor).expect("JSON"));
        let step = publish(ArtifactKind::Step, "steps/noop", common::component("noop"), descriptor).await;
        let catalog = Catalog { steps: [(kind, step)].into() };
        let definition = definition();
        let sources = Sources {
            definition: publish(ArtifactKind::Definition, "definition", bytes(&definition), None).await,
            catalog: publish(ArtifactKind::Catalog, "catalog", bytes(&catalog), None).await,
            policy: publish(ArtifactKind::PolicyBundle, "policy", bytes(&policy()), None).await,
        };
        let plan = plan::plan(sources.clone(), &definition, &catalog, serde_json::json!({})).expect("a plan");
        let task = task(&sources, &plan.digest().expect("a digest"));
        let trust = TrustPolicy::any_of([("bench".to_owned(), key.public().clone())]).expect("a trust policy");
        let directory = tempfile::tempdir().expect("a directory");
        let executor = executor(node, directory.path(), client, trust).await;
        let host = Self { executor, task, next: 0.into(), directory, _registry: registry };
        host.round().await;
        host
    }

    /// Microseconds per attempt from a leased task to a durable end that the plane has accepted: the tasks
    /// are accepted, executed, ended and forgotten.
    #[expect(clippy::future_not_send, reason = "a benchmark stays on its thread")]
    pub(crate) async fn round(&self) -> f64 {
        let slots = tokio::sync::Semaphore::new(SLOTS);
        let begin = Instant::now();
        let tasks = (0..TASKS).map(|_| async {
            let _slot = slots.acquire().await.expect("open");
            let number = self.next.replace(self.next.get() + 1);
            let task = Task { task_id: format!("task-{number}"), ..self.task.clone() };
            let journal = &self.executor.journal;
            journal.accept(&task, Epoch(1)).await.expect("journaled");
            let outcome =
                self.executor.execute(&task, &Signals::default(), Arc::new(NoIssuer)).await.expect("executed");
            assert_eq!(outcome, TaskOutcome::Succeeded);
            journal.end_task(&task.task_id, &outcome).await.expect("journaled");
            journal.forget(&task.task_id).await.expect("journaled");
        });
        futures::future::join_all(tasks).await;
        begin.elapsed().as_secs_f64() * 1e6 / f64::from(ATTEMPTS)
    }

    /// Where the journal is.
    pub(crate) fn journal(&self) -> std::path::PathBuf {
        self.directory.path().join("journal.sqlite")
    }
}

fn bytes<T: serde::Serialize>(document: &T) -> Vec<u8> {
    canonical::to_bytes(document).expect("canonical JSON")
}

fn definition() -> Definition {
    let steps: Vec<String> = (0..STEPS).map(|number| format!("{{ id: s{number}, uses: noop@v1 }}")).collect();
    let text = format!(
        "{{operation_type: bench.noop, version: v1, backend_type: node_agent, input_schema: {{type: object}}, steps: [{}]}}",
        steps.join(", ")
    );
    fettle_model::document::read(&text).expect("a definition")
}

fn policy() -> PolicyBundle {
    fettle_model::document::read("{revision: 1}").expect("a policy bundle")
}

fn task(sources: &Sources, plan_digest: &fettle_model::digest::Digest) -> Task {
    let text = |reference: &Reference| reference.to_string();
    serde_json::from_value(serde_json::json!({
        "task_id": "task", "operation_id": "01JBENCHBENCHBENCHBENCHBEN", "project_id": "p", "node_id": "n",
        "correlation_id": "01JBENCHBENCHBENCHBENCHBEN", "inputs": {}, "plan_digest": plan_digest,
        "sources": {
            "definition": text(&sources.definition), "catalog": text(&sources.catalog), "policy": text(&sources.policy)
        },
    }))
    .expect("a task")
}

async fn executor(node: &TestNode, data: &std::path::Path, client: RegistryClient, trust: TrustPolicy) -> Executor {
    let pressure = Pressure::default();
    let calls = u32::try_from(SLOTS * CONCURRENCY).expect("few");
    let sandbox = Sandbox::with_pressure(calls, Limits::default(), &pressure).expect("a sandbox");
    let store = ContentStore::open(&data.join("artifacts")).expect("a store");
    let bounds = Bounds { count: 2_000, ..Bounds::default() };
    let journal = Journal::open_bounded(&data.join("journal.sqlite"), bounds).await.expect("a journal");
    Executor {
        shelf: Shelf::new(Supplier::new(store, client, trust), sandbox.clone()),
        sandbox,
        node: node.node.clone(),
        journal,
        clock: Clock::system(),
        concurrency: CONCURRENCY,
        cancel_grace: fettle_host::executor::CANCEL_GRACE,
        host_id: Arc::from("bench"),
        pressure,
        metrics: HostMetrics::default(),
        refusals: Refusals::open(data).expect("a file"),
        policies: Policies::open(data).expect("a file"),
        handles: [0; 32].into(),
        lock: Arc::new(std::fs::File::create(data.join("lock")).expect("a file")),
    }
}

/// Processor time of the whole process so far.
pub(crate) fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or_default(), u32::try_from(time.tv_nsec).unwrap_or_default())
}
