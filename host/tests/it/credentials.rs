//! Attacks of a step on credentials, each with the protection that it meets and without it; and the memory of the host.

use std::{
    collections::BTreeMap,
    fs::File,
    os::unix::fs::FileExt as _,
    sync::{Arc, Mutex},
    time::Duration,
};

use fettle_host::{
    capabilities::{
        Configured,
        credentials::{HandleKey, IssueError, Issued, Issuer, Purse, Secret},
        report::Report,
    },
    clock::Clock,
    mutation::{Protection, without},
    sandbox::{Call, Spent},
};
use fettle_model::{credential::Intent, failure::FailureClass, grant::Grants, name::StepId, reference::Reference};
use fettle_supply::{
    RegistryClient, RegistryOptions,
    testing::{FaultyProxy, TestRegistry},
};
use futures::future::BoxFuture;
use serde_json::{Value, json};

use crate::common::{self, Heard, TestNode};

const SECRET: &str = "s3cret-of-the-issuer";

/// Gives the secret, and remembers for which step and what.
#[derive(Default)]
struct Noting(Mutex<Vec<String>>);

impl Issuer for Noting {
    fn issue<'a>(&'a self, step_id: &'a StepId, intent: &'a Intent) -> BoxFuture<'a, Result<Issued, IssueError>> {
        self.0.lock().unwrap().push(format!("{step_id}: {intent}"));
        let parts = BTreeMap::from([("token".to_owned(), Secret::new(SECRET).unwrap())]);
        Box::pin(async { Ok(Issued { lifetime: Duration::from_mins(5), parts }) })
    }
}

/// A task on a node, in which the step `token` may have credentials minted.
struct Task {
    node: TestNode,
    heard: Arc<Heard>,
    issuer: Arc<Noting>,
    purse: Arc<Purse>,
}

impl Task {
    fn new(mint: &str) -> Self {
        let issuer = Arc::new(Noting::default());
        let purse = Purse::new(HandleKey::from([7; 32]), "task-1".to_owned(), issuer.clone());
        let task = Self { node: TestNode::new(), heard: Arc::default(), issuer, purse: Arc::new(purse) };
        drop(task.configured("token", &task.grants(&format!("{{credentials: {{mint: [{mint}]}}}}"))));
        task
    }

    fn grants(&self, text: &str) -> Grants {
        fettle_model::document::read(text).unwrap()
    }

    fn configured(&self, step: &str, grants: &Grants) -> Configured {
        let configured = Configured::new(&self.node.node, grants, &self.node.policy, None).unwrap();
        configured.with_purse(&self.purse, &step.parse().unwrap())
    }

    /// Runs a component as this step, with these grants.
    async fn run(
        &self,
        (step, component): (&str, &str),
        grants: &str,
        input: &Value,
    ) -> Result<Value, fettle_model::failure::Failure> {
        let grants = self.grants(grants);
        let linked = self.node.link(component, &grants).await;
        let report = Report::new(Arc::<Heard>::clone(&self.heard), Clock::system());
        let call = Call {
            context: common::context(),
            capabilities: self.configured(step, &grants).prepare(report, &self.node.attempt()),
            timeout: Duration::from_secs(20),
            elapsed: Duration::ZERO,
            spent: Spent::default(),
            tape: None,
        };
        linked.run(call, &input.to_string()).await
    }

    async fn exec(&self, handle: &str) -> Result<Value, fettle_model::failure::Failure> {
        let input = json!({"profile": "secret", "arguments": {"token": handle}});
        self.run(("use", "command-exec-allowlisted"), "{exec: {profiles: [secret]}}", &input).await
    }

    fn issued(&self) -> Vec<String> {
        self.issuer.0.lock().unwrap().clone()
    }
}

#[tokio::test]
async fn a_step_that_makes_a_handle_up_has_none_and_without_the_protection_it_would() {
    let task = Task::new("{type: hf_token, scope: 'meta/*'}");
    let made_up = format!("credential:token:hf_token:meta/llama:{}", "0".repeat(32));
    let denied = task.exec(&made_up).await.unwrap_err();
    assert_eq!((denied.class, task.issued()), (FailureClass::Denied, vec![]), "{denied}");
    let _out = without(Protection::HandlesAreAuthenticated);
    assert!(task.exec(&made_up).await.is_ok());
    assert_eq!(task.issued(), ["token: hf_token meta/llama"]);
}

#[tokio::test]
async fn a_program_that_prints_its_secret_tells_the_step_nothing_and_without_the_protection_it_would() {
    let task = Task::new("{type: hf_token, scope: 'meta/*'}");
    let grants = "{credentials: {mint: [{type: hf_token, scope: 'meta/*'}]}}";
    let wanted = json!({"credential_type": "hf_token", "scope": "meta/llama"});
    let minted = task.run(("token", "credential-mint"), grants, &wanted).await.unwrap();
    let handle = minted["credential"].as_str().unwrap();
    assert!(!handle.contains(SECRET));
    let stdout = |output: Value| output["stdout"].as_str().unwrap().trim().to_owned();
    assert_eq!(stdout(task.exec(handle).await.unwrap()), "*".repeat(SECRET.len()));
    let _out = without(Protection::PrintedSecretsAreHidden);
    assert_eq!(stdout(task.exec(handle).await.unwrap()), SECRET);
}

#[tokio::test]
async fn a_credential_goes_with_its_artifact_alone_and_without_the_protection_with_all_of_the_repository() {
    if !TestRegistry::is_installed() {
        return common::skip("docker-registry is not installed here");
    }
    let registry = TestRegistry::start();
    let proxy = FaultyProxy::start(registry.address()).await;
    let (mine, other) = (push(&registry, &proxy, "mine").await, push(&registry, &proxy, "other").await);
    let task = Task::new(&format!("{{type: oci_pull, scope: '{}/*'}}", proxy.address()));
    let mint = format!("{{credentials: {{mint: [{{type: oci_pull, scope: '{}/*'}}]}}}}", proxy.address());
    let wanted = json!({"credential_type": "oci_pull", "scope": mine.to_string()});
    let minted = task.run(("token", "credential-mint"), &mint, &wanted).await.unwrap();
    let handle = minted["credential"].as_str().unwrap();
    let grants =
        format!("{{transfer: {{hosts: ['{}'], credentials: [oci_pull]}}, files: {{write: [data]}}}}", proxy.address());
    let carried = async |reference: &Reference, destination: &str| {
        let before = proxy.heads().len();
        let input = json!({"reference": reference.to_string(), "destination": destination, "credential": handle});
        task.run(("pull", "artifact-pull-oci"), &grants, &input).await.unwrap();
        let heads = proxy.heads().split_off(before);
        assert!(heads.len() >= 2, "a manifest and a layer: {heads:?}");
        heads.iter().filter(|head| head.to_lowercase().contains(&format!("authorization: bearer {SECRET}"))).count()
    };
    assert_eq!(carried(&mine, "data/mine").await, 2, "the manifest and its layer");
    assert_eq!(carried(&other, "data/other").await, 0, "it is another artifact");
    let _out = without(Protection::CredentialsOpenOneArtifact);
    assert_eq!(carried(&other, "data/again").await, 2);
}

/// An artifact of one repository with this content.
async fn push(registry: &TestRegistry, proxy: &FaultyProxy, content: &str) -> Reference {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    std::fs::write(&file, content).unwrap();
    let client = RegistryClient::new(RegistryOptions::default()).unwrap();
    let repository = registry.repository("models/small");
    let pushed = client.push_files(&repository, &[("weights.bin".to_owned(), file)]).await.unwrap();
    proxy.repository("models/small").at(pushed.digest)
}

#[tokio::test]
async fn transfers_carry_no_credential_without_a_grant() {
    let task = Task::new("{type: oci_pull, scope: 'r:1/*'}");
    let digest = format!("sha256:{}", "a".repeat(64));
    let scope = format!("r:1/models/a@{digest}");
    let wanted = json!({"credential_type": "oci_pull", "scope": scope});
    let mint = "{credentials: {mint: [{type: oci_pull, scope: 'r:1/*'}]}}";
    let minted = task.run(("token", "credential-mint"), mint, &wanted).await.unwrap();
    let input = json!({"reference": scope, "destination": "data/a", "credential": minted["credential"]});
    let grants = "{transfer: {hosts: ['r:1']}, files: {write: [data]}}";
    let denied = task.run(("pull", "artifact-pull-oci"), grants, &input).await.unwrap_err();
    assert_eq!((denied.class, denied.code.as_str()), (FailureClass::Denied, "transfer.access-denied"));
    let denials = task.heard.denials.lock().unwrap();
    assert_eq!(denials[0].rule, "transfer.credentials", "{denials:?}");
}

/// What is in memory that was just freed, behind what the allocator itself writes there.
fn left_in_freed_memory() -> Vec<u8> {
    let memory = File::open("/proc/self/mem").unwrap();
    let mut left = vec![0; 64];
    let secret = vec![0x5a_u8; 4096];
    let place = secret.as_ptr().addr() as u64 + 1024;
    drop(secret);
    memory.read_exact_at(&mut left, place).unwrap();
    left
}

#[test]
fn freed_memory_holds_nothing_and_without_the_protection_it_would() {
    assert_eq!(left_in_freed_memory(), [0; 64]);
    let _out = without(Protection::FreedMemoryIsOverwritten);
    assert_eq!(left_in_freed_memory(), [0x5a; 64]);
}
