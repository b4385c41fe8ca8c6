//! What the tests of built components share: load a component, give it grants, call it.

#![allow(dead_code, reason = "each benchmark takes a part of it")]

use std::{
    path::PathBuf,
    sync::{Arc, Mutex},
    time::Duration,
};

use fettle_egress::{ClientOptions, Guard};
use fettle_host::{
    capabilities::{Configured, Node, Queues, exec, facts, files, gpu, http, report, transfer},
    clock::Clock,
    queue::Pressure,
    sandbox::{Call, Limits, Observation, Sandbox, Spent, Step, bindings::exports::fettle::step::step::Context},
};
use fettle_model::{denial::Denial, failure::Failure, grant::Grants, policy::PolicyBundle, task::LogLine};
use fettle_supply::{RegistryClient, RegistryOptions};
use serde_json::Value;

/// Where cargo puts what it builds.
pub(crate) fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../target"), PathBuf::from)
}

/// A component that `cargo xtask steps` has built.
pub(crate) fn component(name: &str) -> Vec<u8> {
    let file = format!("fettle_step_{}.wasm", name.replace('-', "_"));
    let path = target().join("wasm32-wasip2/step").join(file);
    std::fs::read(&path)
        .unwrap_or_else(|error| panic!("{} is missing ({error}): run `cargo xtask steps` first", path.display()))
}

/// A node of its own in a temporary directory.
pub(crate) struct TestNode {
    pub(crate) sandbox: Sandbox,
    pub(crate) node: Node,
    pub(crate) policy: Arc<PolicyBundle>,
    pub(crate) directory: tempfile::TempDir,
}

/// All that one attempt logged and how far it said it was.
#[derive(Default)]
pub(crate) struct Heard {
    pub(crate) lines: Mutex<Vec<LogLine>>,
    pub(crate) progress: Mutex<Vec<u8>>,
    pub(crate) denials: Mutex<Vec<Denial>>,
}

impl report::Sink for Heard {
    fn line(&self, line: LogLine) {
        self.lines.lock().unwrap().push(line);
    }

    fn progress(&self, percent: u8, _message: Option<String>) {
        self.progress.lock().unwrap().push(percent);
    }

    fn denied(&self, denial: Denial) {
        self.denials.lock().unwrap().push(denial);
    }
}

const POLICY: &str = r"
revision: 1
roots: { data: data, other: other }
profiles:
  - { id: hello, command: /usr/bin/printf, allowed_args: ['hello %s'], arg_schema: [{ name: who, value: { pattern: '[a-z]+' } }] }
  - { id: environment, command: /usr/bin/printenv, environment: { FIXED: one } }
  - { id: forever, command: /usr/bin/yes, timeout_seconds: 1, capture_limit_bytes: 1000 }
  - { id: sleeper, command: /usr/bin/sleep, allowed_args: ['1000'], timeout_seconds: 1 }
  - { id: stubborn, command: /usr/bin/timeout, allowed_args: ['--signal=KILL', '1000', '/usr/bin/sleep', '1000'], timeout_seconds: 1 }
  - { id: digest, command: /usr/bin/sha256sum, arg_schema: [{ name: file, value: { path: { root: data } } }] }
  - { id: changed, command: /usr/bin/true, sha256: '0000000000000000000000000000000000000000000000000000000000000000' }
  - { id: counts, command: /usr/bin/seq, arg_schema: [{ name: last, value: { integer: { minimum: 1, maximum: 3 } } }] }
  - { id: prints, command: /usr/bin/seq, allowed_args: ['1000'], capture_limit_bytes: 1000 }
  - { id: prints-more, command: /usr/bin/seq, allowed_args: ['1000'], capture_limit_bytes: 4000 }
  - { id: fails, command: /usr/bin/ls, allowed_args: [/not-there-1, /not-there-2] }
  - { id: silent, command: /usr/bin/ls, allowed_args: [/not-there], capture_stderr: false }
  - { id: expects, command: /usr/bin/false, expected_exit_codes: [1] }
  - { id: killed, command: /usr/bin/timeout, allowed_args: ['--signal=KILL', '0.1', '/usr/bin/sleep', '1000'] }
  - { id: gone, command: /usr/bin/not-there }
  - { id: again, command: /usr/bin/false, retries: { attempts: 3, backoff_milliseconds: 1, exit_codes: [1] } }
  - { id: once, command: /usr/bin/false, retries: { attempts: 3, backoff_milliseconds: 1, exit_codes: [75], timed_out: true } }
  - { id: somebody, command: /usr/bin/id, allowed_args: [--user], user: nobody }
  - { id: group, command: /usr/bin/id, allowed_args: [--groups], user: nobody, group: daemon }
  - { id: root, command: /usr/bin/id, allowed_args: [--user], user: root }
  - { id: secret, command: /usr/bin/printenv, allowed_args: [TOKEN], arg_schema: [{ name: token, value: { credential: { type: hf_token, variables: { TOKEN: token } } } }] }
  - { id: name, command: /usr/bin/ls, arg_schema: [{ name: file, value: { path: { root: data, pass: name } } }] }
ceiling:
  exec: { profiles: ['*'] }
  files: { read: [data, other], write: [data] }
  transfer: { hosts: ['*'], credentials: [oci_pull] }
  credentials: { mint: [{ type: hf_token, scope: '*' }, { type: oci_pull, scope: '*' }] }
  facts: { read: [system, memory, filesystems, processes, kernel-log] }
  gpu: { read: true }
egress: { private: { '127.0.0.1': [127.0.0.1/32], localhost: [127.0.0.0/8, '::1/128'] } }
";

impl TestNode {
    pub(crate) fn new() -> Self {
        Self::with_limits(Limits::default())
    }

    pub(crate) fn with_limits(limits: Limits) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let spawner = exec::Spawner::start(None, &Pressure::default()).unwrap();
        let node = Node {
            queues: Queues::default(),
            gpu: gpu::Probe::new(PathBuf::from(env!("CARGO_BIN_EXE_fettle-host")), None, spawner.clone()),
            spawner,
            files_directory: directory.path().to_owned(),
            transfers: transfer::Transfers::new(RegistryClient::new(RegistryOptions::default()).unwrap()),
            web: http::Web::new(Guard::of_configuration(), ClientOptions::default()),
            facts: facts::Source::default(),
            digests: files::DigestCache::default(),
        };
        let policy: PolicyBundle = fettle_model::document::read(POLICY).unwrap();
        policy.check().unwrap();
        Self { sandbox: Sandbox::new(8, limits).unwrap(), node, policy: Arc::new(policy), directory }
    }

    pub(crate) async fn link(&self, name: &str, grants: &Grants) -> Step {
        let compiled = self.sandbox.compile(component(name).into()).await.unwrap();
        self.sandbox.link(&compiled, grants).unwrap()
    }

    pub(crate) fn call(&self, grants: &Grants, heard: &Arc<Heard>, timeout: Duration) -> Call {
        let capabilities = Configured::new(&self.node, grants, &self.policy, None).unwrap();
        let sink: Arc<dyn report::Sink> = Arc::<Heard>::clone(heard);
        let report = report::Report::new(sink, Clock::system());
        Call {
            context: context(),
            capabilities: capabilities.prepare(report, &self.attempt()),
            timeout,
            elapsed: Duration::ZERO,
            spent: Spent::default(),
            tape: None,
        }
    }

    /// The mark of the programs of this node. Its own: when an attempt ends, every process with its mark is
    /// killed, and tests run beside each other.
    pub(crate) fn attempt(&self) -> String {
        format!("{}/task/step/1", self.directory.path().file_name().unwrap().to_string_lossy())
    }

    pub(crate) async fn run(&self, name: &str, grants: &str, input: &Value) -> Result<Value, Failure> {
        let grants = fettle_model::document::read(grants).unwrap();
        let step = self.link(name, &grants).await;
        step.run(self.call(&grants, &Arc::default(), Duration::from_secs(20)), &input.to_string()).await
    }

    pub(crate) async fn probe(&self, name: &str, grants: &str, input: &Value) -> Result<Observation, Failure> {
        let grants = fettle_model::document::read(grants).unwrap();
        let step = self.link(name, &grants).await;
        step.probe(self.call(&grants, &Arc::default(), Duration::from_secs(20)), &input.to_string()).await
    }
}

pub(crate) fn context() -> Context {
    Context {
        operation_id: "operation".to_owned(),
        task_id: "task".to_owned(),
        step_id: "step".to_owned(),
        attempt: 1,
        correlation_id: "correlation".to_owned(),
    }
}

/// A recorded kernel log with these messages, a second apart.
pub(crate) fn kernel_log(directory: &tempfile::TempDir, messages: &[&str]) -> PathBuf {
    let path = directory.path().join("kmsg");
    let record = |(index, text): (usize, &&str)| format!("3,{index},{},-;{text}\n", index * 1_000_000);
    std::fs::write(&path, messages.iter().enumerate().map(record).collect::<String>()).unwrap();
    path
}

/// What a check found that is not ok, as `check severity action`.
pub(crate) fn complaints(output: &Value) -> Vec<String> {
    let findings = output["findings"].as_array().unwrap();
    let bad = findings.iter().filter(|finding| finding["severity"] != "ok");
    bad.map(|finding| ["check", "severity", "action"].map(|field| finding[field].as_str().unwrap()).join(" ")).collect()
}

/// How many processes have exactly this mark.
pub(crate) fn marked_processes(mark: &str) -> usize {
    let needle = format!("{}={mark}", exec::leftovers::MARK);
    let entries = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let environments = entries.filter_map(|entry| std::fs::read(entry.path().join("environ")).ok());
    environments
        .filter(|environment| environment.split(|byte| *byte == 0).any(|variable| variable == needle.as_bytes()))
        .count()
}

/// Waits until something holds, for 10 seconds at most.
pub(crate) async fn eventually(what: &str, holds: impl Fn() -> bool) {
    for _ in 0..500 {
        if holds() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("it never came that {what}");
}

/// A suite that needs something this machine does not have: an error when all must run.
pub(crate) fn skip(why: &str) {
    assert!(std::env::var_os("FETTLE_TEST_ALL").is_none(), "{why}");
    eprintln!("SKIPPED: {why}");
}

/// A small file system of its own, for as long as it is held. Needs root.
pub(crate) struct TinyDisk(PathBuf);

impl TinyDisk {
    pub(crate) fn mount(directory: &std::path::Path, size: &str) -> std::io::Result<Self> {
        let data = std::ffi::CString::new(format!("size={size}")).unwrap();
        rustix::mount::mount("tmpfs", directory, "tmpfs", rustix::mount::MountFlags::empty(), data.as_c_str())?;
        Ok(Self(directory.to_owned()))
    }
}

impl Drop for TinyDisk {
    fn drop(&mut self) {
        let _ = rustix::mount::unmount(&self.0, rustix::mount::UnmountFlags::DETACH);
    }
}
