//! Credentials of steps: minted by the plane, carried by the host, and nowhere else.

use std::{process::Command, sync::Arc};

use axum::{Json, Router, routing::post};
use fettle_tests::{
    Fleet, Supply, eventually,
    fleet::{PATIENCE, step},
    memory,
};
use serde_json::json;

use crate::PROGRAMS;

/// Stages a model of a registry that lets in only who shows a token.
const PRIVATE: &str = r"
operation_type: test.private
version: v1
backend_type: node_agent
input_schema: { type: object, required: [model], properties: { model: { type: string }, other: { type: string } } }
artifact_constraints: { allowed_repositories: ['models/*'] }
steps:
  - id: token
    uses: credential.mint@v1
    reusable: false
    with: { credential_type: oci_pull, scope: '${{ inputs.model }}' }
    grants: { credentials: { mint: [{ type: oci_pull, scope: 'REGISTRY/models/*' }] } }
  - id: pull
    uses: artifact.pull_oci@v1
    with: { reference: '${{ inputs.model }}', destination: models/private, credential: '${{ steps.token.credential }}' }
    grants: { transfer: { hosts: ['REGISTRY'], credentials: [oci_pull] }, files: { write: [models] } }
";

/// The same without a credential.
const ANONYMOUS: &str = r"
operation_type: test.anonymous
version: v1
backend_type: node_agent
input_schema: { type: object, required: [model], properties: { model: { type: string } } }
steps:
  - id: pull
    uses: artifact.pull_oci@v1
    with: { reference: '${{ inputs.model }}', destination: models/anonymous }
    grants: { transfer: { hosts: ['REGISTRY'] }, files: { write: [models] } }
";

/// Joins a cluster: the program finds its token in a variable, and takes its time.
const JOIN: &str = r"
operation_type: test.join
version: v1
backend_type: node_agent
input_schema: { type: object, properties: { profile: { type: string } } }
steps:
  - id: token
    uses: credential.mint@v1
    reusable: false
    with: { credential_type: cluster_join_token, scope: training }
    grants: { credentials: { mint: [{ type: cluster_join_token, scope: training }] } }
  - id: join
    uses: command.exec_allowlisted@v1
    with: { profile: '${{ inputs.profile }}', arguments: { token: '${{ steps.token.credential }}' } }
    grants: { exec: { profiles: [hold, print, fail, late] } }
";

/// Wants a token for a cluster that nobody signed for.
const GREEDY: &str = r"
operation_type: test.greedy
version: v1
backend_type: node_agent
input_schema: { type: object }
steps:
  - id: token
    uses: credential.mint@v1
    reusable: false
    with: { credential_type: cluster_join_token, scope: production }
    grants: { credentials: { mint: [{ type: cluster_join_token, scope: training }] } }
";

/// Makes a handle itself.
const FORGED: &str = r"
operation_type: test.forged
version: v1
backend_type: node_agent
input_schema: { type: object, required: [handle], properties: { handle: { type: string } } }
steps:
  - id: join
    uses: command.exec_allowlisted@v1
    with: { profile: hold, arguments: { token: '${{ inputs.handle }}' } }
    grants: { exec: { profiles: [hold] } }
";

const POLICY: &str = r"
revision: 1
roots: { models: models }
profiles:
  - id: hold
    command: /usr/bin/sleep
    allowed_args: ['1000']
    timeout_seconds: 1000
    arg_schema: [{ name: token, value: { credential: { type: cluster_join_token, variables: { JOIN_TOKEN: token } } } }]
  - id: fail
    command: /usr/bin/false
    arg_schema: [{ name: token, value: { credential: { type: cluster_join_token, variables: { JOIN_TOKEN: token } } } }]
  - id: late
    command: /usr/bin/sleep
    allowed_args: ['1000']
    timeout_seconds: 1
    arg_schema: [{ name: token, value: { credential: { type: cluster_join_token, variables: { JOIN_TOKEN: token } } } }]
  - id: print
    command: /usr/bin/printenv
    allowed_args: ['JOIN_TOKEN']
    arg_schema: [{ name: token, value: { credential: { type: cluster_join_token, variables: { JOIN_TOKEN: token } } } }]
ceiling:
  exec: { profiles: ['*'] }
  files: { write: [models] }
  transfer: { hosts: ['*'], credentials: [oci_pull] }
  credentials: { mint: [{ type: oci_pull, scope: '*' }, { type: cluster_join_token, scope: '*' }] }
  facts: { read: [system] }
  gpu: { read: true }
egress: { private: { '127.0.0.1': [127.0.0.1/32] } }
";

/// What the issuer gives out: another one in each test, for they run beside each other and look at all processes.
fn canary() -> String {
    format!("cnry-7f3a9e51c2d84b06-{:08x}", std::process::id().wrapping_mul(2_654_435_761))
}

/// Runs `fettle-plane secret`.
#[expect(clippy::disallowed_methods, reason = "what an administrator does")]
fn secret(arguments: &[&str], input: &str) -> String {
    use std::{io::Write as _, process::Stdio};
    let mut command = Command::new(PROGRAMS.plane);
    command.arg("secret").args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{arguments:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// A service that gives the canary to whoever has its token.
async fn issuer() -> String {
    let answer = || async { Json(json!({"material": {"token": canary()}, "expires_in_seconds": 300})) };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let router = Router::new().route("/join", post(answer));
    tokio::spawn(async move { axum::serve(listener, router).await });
    format!("http://{address}/join")
}

/// Everything that mints: a fleet, a registry that wants tokens, and an issuer.
struct World {
    supply: Supply,
    fleet: Fleet,
    /// A model in the registry that wants tokens.
    model: String,
    /// Another one, whose repository is not below `models/`.
    other: String,
    registry: Arc<fettle_supply::testing::TestRegistry>,
}

impl World {
    async fn new() -> Self {
        let supply = Supply::with(&["credential-mint", "artifact-pull-oci", "command-exec-allowlisted"]).await;
        let mut registry = fettle_supply::testing::TestRegistry::start();
        let pushed = async |path: &str| {
            let file = supply.directory().join("weights");
            std::fs::write(&file, format!("weights of {path}")).unwrap();
            let files = [("weights.bin".to_owned(), file)];
            supply.client.push_files(&registry.repository(path), &files).await.unwrap().to_string()
        };
        let (model, other) = (pushed("models/private").await, pushed("secrets/private").await);
        let key = supply.directory().join("secret.key");
        let key = key.to_str().unwrap();
        secret(&["generate-key", key], "");
        let seal = |text: &str| secret(&["seal", "--secret-key", key], text);
        let signing = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).unwrap();
        let certificate = rcgen::CertificateParams::new(Vec::new()).unwrap().self_signed(&signing).unwrap();
        std::fs::write(supply.directory().join("registry.pem"), certificate.pem()).unwrap();
        registry.require_tokens("fettle", &certificate.pem());
        let address = registry.address();
        let document = format!(
            "providers:
  - type: oci_pull
    scope: '{address}/*'
    from: {{ registry_key: {{ issuer: fettle, service: registry, certificate_file: registry.pem, key: {} }} }}
  - type: cluster_join_token
    scope: training
    from: {{ issuer: {{ url: '{}', token: {} }} }}
",
            seal(&signing.serialize_pem()),
            issuer().await,
            seal("issuer-token")
        );
        let path = supply.directory().join("credentials.yaml");
        std::fs::write(&path, document).unwrap();
        let mut fleet = Fleet::prepare(PROGRAMS, &supply.trust).await;
        let named = ["--credentials", path.to_str().unwrap(), "--secret-key", key].map(str::to_owned);
        fleet.planes.arguments.extend(named);
        fleet.planes.start().await;
        fleet.start_host();
        fleet.node_online().await;
        let registry = Arc::new(registry);
        Self { supply, fleet, model, other, registry }
    }

    async fn register(&self, definition: &str) {
        let definition = definition.replace("REGISTRY", self.registry.address());
        self.fleet.register(&self.supply.publish(&definition, POLICY).await).await;
    }

    /// Audit rows of credentials: what came of each.
    async fn audited(&self) -> Vec<String> {
        let administration = self.fleet.administration().await;
        let mut rows = Vec::new();
        let mut after = None;
        loop {
            let page = administration.audit(after).await.unwrap();
            let Some(last) = page.last() else { break };
            after = Some(last.sequence);
            rows.extend(page);
        }
        administration.close().await;
        rows.into_iter().filter(|row| row.action == "credential.mint").map(|row| row.result).collect()
    }

    /// The process ids of the programs that the host has started and that run.
    fn programs(&self) -> Vec<u32> {
        crate::interruptions::programs(&self.fleet)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_of_a_registry_that_wants_tokens_is_staged_with_one_that_was_minted_for_it() {
    let world = World::new().await;
    world.register(PRIVATE).await;
    world.register(ANONYMOUS).await;
    let refused = world.fleet.run("test.anonymous", &json!({"model": world.model})).await;
    assert_eq!(refused["status"], "failed", "{refused:#}");
    let staged = world.fleet.run("test.private", &json!({"model": world.model})).await;
    assert_eq!(staged["status"], "succeeded", "{staged:#}\n{}", world.fleet.logs());
    let content = std::fs::read_to_string(world.fleet.node_file("models/private/weights.bin")).unwrap();
    assert_eq!(content, "weights of models/private");
    assert_eq!(world.audited().await, ["ok"]);
    // The input fits its schema; what it names was not signed for.
    let (status, answer) =
        world.fleet.try_submit("test.private", &json!({"model": world.other}), "other").await.unwrap();
    assert_eq!(status, 422, "{answer:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_not_signed_for_is_neither_minted_nor_used() {
    let world = World::new().await;
    for definition in [GREEDY, FORGED, JOIN] {
        world.register(definition).await;
    }
    let greedy = world.fleet.run("test.greedy", &json!({})).await;
    assert_eq!(step(&greedy, "token")["failure"]["code"], "credentials.access-denied", "{greedy:#}");
    // The host denied it itself: the plane was not even asked.
    assert!(world.audited().await.is_empty());
    let minted = world.fleet.run("test.join", &json!({"profile": "print"})).await;
    assert_eq!(minted["status"], "succeeded", "{minted:#}\n{}", world.fleet.logs());
    let known = step(&minted, "token")["output"]["credential"].as_str().unwrap().to_owned();
    assert!(known.starts_with("credential:token:cluster_join_token:training:"), "{known}");
    for handle in [known, "credential:token:cluster_join_token:training:00".to_owned(), "nonsense".to_owned()] {
        let forged = world.fleet.run("test.forged", &json!({"handle": handle})).await;
        let failure = &step(&forged, "join")["failure"];
        assert_eq!(
            (&failure["class"], &failure["code"]),
            (&json!("denied"), &json!("exec.access-denied")),
            "{forged:#}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_is_in_locked_memory_and_in_its_program_and_nowhere_else_and_gone_afterwards() {
    let world = World::new().await;
    world.register(JOIN).await;
    let canary = canary();
    let needle = canary.as_bytes();
    let host = world.fleet.host.as_ref().unwrap().id();
    let id = world.fleet.submit("test.join", &json!({"profile": "hold"})).await;
    let [program] =
        eventually("the program to run", PATIENCE, async || <[u32; 1]>::try_from(world.programs()).ok()).await;
    // What is on its way in the moment of the start is let go of first.
    let settled = eventually("copies on their way to be gone", PATIENCE, async || {
        let found = memory::in_process(host, needle);
        found.iter().all(memory::Found::is_kept_safely).then_some(found)
    });
    assert_eq!(settled.await.len(), 1, "the scan finds the secret where it is");
    let shown = memory::shown_by_processes(needle);
    assert_eq!(shown, [(program, "environ")], "only the program that it is for");
    world.fleet.cancel(&id).await;
    assert_eq!(world.fleet.ended(&id).await["status"], "canceled");
    eventually("the secret to be gone", PATIENCE, async || memory::in_process(host, needle).is_empty().then_some(()))
        .await;
    // Another end, of a program that prints its secret.
    let printed = world.fleet.run("test.join", &json!({"profile": "print"})).await;
    assert_eq!(printed["status"], "succeeded", "{printed:#}");
    let output = step(&printed, "join")["output"]["stdout"].as_str().unwrap();
    assert_eq!(output.trim(), "*".repeat(canary.len()));
    // And of one that fails, and one that takes too long.
    for profile in ["fail", "late"] {
        let failed = world.fleet.run("test.join", &json!({"profile": profile})).await;
        assert_eq!(failed["status"], "failed", "{failed:#}");
    }
    eventually("the secret to be gone", PATIENCE, async || memory::in_process(host, needle).is_empty().then_some(()))
        .await;
    assert_eq!(memory::shown_by_processes(needle), []);
    for directory in [world.fleet.host_directory(), world.fleet.planes.directory().to_owned()] {
        assert_eq!(memory::in_files(&directory, needle), Vec::<std::path::PathBuf>::new());
    }
    assert!(!world.fleet.logs().contains(&canary));
}

/// Mints, waits, and joins: the host is killed while it waits.
const LATER: &str = r"
operation_type: test.later
version: v1
backend_type: node_agent
input_schema: { type: object }
steps:
  - id: token
    uses: credential.mint@v1
    reusable: false
    with: { credential_type: cluster_join_token, scope: training }
    grants: { credentials: { mint: [{ type: cluster_join_token, scope: training }] } }
  - id: wait
    uses: testing.misbehave@v1
    needs: [token]
    with: { mode: busy, count: 4000 }
    grants: { exec: { profiles: [print] }, files: { write: [models] }, facts: { read: [system] }, gpu: { read: true } }
  - id: join
    uses: command.exec_allowlisted@v1
    needs: [wait]
    with: { profile: print, arguments: { token: '${{ steps.token.credential }}' } }
    grants: { exec: { profiles: [print] } }
";

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_goes_on_after_its_host_was_killed_has_its_credential_minted_again() {
    let mut world = World::new().await;
    world.supply.publish_step("testing").await;
    world.register(LATER).await;
    let id = world.fleet.submit("test.later", &json!({})).await;
    world.fleet.until(&id, |operation| step(operation, "wait")["status"] == "running").await;
    world.fleet.host.as_mut().unwrap().kill();
    world.fleet.start_host();
    let ended = world.fleet.ended(&id).await;
    assert_eq!(ended["status"], "succeeded", "{ended:#}\n{}", world.fleet.logs());
    let output = step(&ended, "join")["output"]["stdout"].as_str().unwrap();
    assert_eq!(output.trim(), "*".repeat(canary().len()));
    assert_eq!(step(&ended, "token")["attempt_number"], 1, "{ended:#}");
    assert_eq!(world.audited().await, ["ok", "ok"], "the host that was started again has asked again");
}

/// A host that dies of a signal with which others leave all their memory in a file.
#[tokio::test(flavor = "multi_thread")]
#[expect(clippy::disallowed_methods, reason = "a program that is no host, to compare with")]
async fn a_host_that_crashes_leaves_no_core_dump() {
    use std::os::unix::process::ExitStatusExt as _;

    use rustix::process::{Pid, Resource, Rlimit, Signal, kill_process, setrlimit};

    let abort = |id: u32| {
        let id = Pid::from_raw(i32::try_from(id).unwrap()).unwrap();
        kill_process(id, Signal::ABORT).unwrap();
    };
    setrlimit(Resource::Core, Rlimit { current: None, maximum: None }).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let mut other = Command::new("/usr/bin/sleep").arg("1000").current_dir(&directory).spawn().unwrap();
    abort(other.id());
    assert!(other.wait().unwrap().core_dumped(), "this machine makes core dumps at all");
    let supply = Supply::with(&["noop"]).await;
    let mut fleet = Fleet::start(PROGRAMS, &supply.trust).await;
    abort(fleet.host.as_ref().unwrap().id());
    let ended = eventually("the host to end", PATIENCE, async || fleet.host.as_mut().unwrap().ended()).await;
    assert_eq!((ended.signal(), ended.core_dumped()), (Some(Signal::ABORT.as_raw()), false));
}
