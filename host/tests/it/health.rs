//! `health.check@v1` in the real host: this machine's own facts, and recorded kernel logs.

use std::sync::Arc;

use crate::common::{self, Heard, TestNode};
use fettle_host::sandbox::Step;
use fettle_model::{
    failure::{Failure, FailureClass},
    grant::Grants,
};
use serde_json::{Value, json};

const EVERYTHING: &str = "{facts: {read: [system, memory, filesystems, processes, kernel-log]}}";

struct World {
    node: TestNode,
    grants: Grants,
    step: Step,
}

impl World {
    async fn new(grants: &str) -> Self {
        let node = TestNode::new();
        let grants = fettle_model::document::read(grants).unwrap();
        let step = node.link("health-check", &grants).await;
        Self { node, grants, step }
    }

    /// The kernel log holds these messages from now on.
    fn log(&mut self, messages: &[&str]) {
        self.node.node.facts.kernel_log = common::kernel_log(&self.node.directory, messages);
    }

    async fn check(&self, input: &Value) -> Result<Value, Failure> {
        let call = self.node.call(&self.grants, &Arc::<Heard>::default(), std::time::Duration::from_secs(20));
        self.step.run(call, &input.to_string()).await
    }

    /// What the kernel log's check answers. Without the system's check, now is the newest message.
    async fn kernel_log(&self) -> Value {
        self.check(&json!({"checks": ["kernel_log"], "fail_on": "never"})).await.unwrap()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn this_machine_answers_every_check() {
    let world = World::new(EVERYTHING).await;
    let output = world.check(&json!({"fail_on": "never"})).await.unwrap();
    let findings = output["findings"].as_array().unwrap();
    for check in ["system", "memory", "filesystems", "kernel_log", "processes"] {
        let of_check: Vec<_> = findings.iter().filter(|finding| finding["check"] == check).collect();
        assert!(!of_check.is_empty(), "{check} found nothing: {output}");
        let unknown = of_check.iter().any(|finding| finding["severity"] == "unknown");
        // Only the kernel log may be withheld from a test that is not root.
        assert!(!unknown || check == "kernel_log", "{check} is unknown: {output}");
    }
    let system = findings.iter().find(|finding| finding["check"] == "system").unwrap();
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    assert!(system["observed"].as_str().unwrap().contains(&release), "{system}");
}

#[tokio::test(flavor = "multi_thread")]
async fn thresholds_turn_this_machines_facts_into_findings() {
    let world = World::new(EVERYTHING).await;
    for (check, thresholds, expected) in [
        ("system", json!({"processors_minimum": 1_000_000}), "system critical inspect_hardware"),
        (
            "memory",
            json!({"memory_available_warning_percent": 100, "memory_available_critical_percent": 0}),
            "memory warning investigate",
        ),
        (
            "filesystems",
            json!({"filesystem_used_warning_percent": 0, "filesystem_used_critical_percent": 0}),
            "filesystems critical drain",
        ),
    ] {
        let input = json!({"checks": [check], "thresholds": thresholds, "fail_on": "never"});
        let output = world.check(&input).await.unwrap();
        assert!(common::complaints(&output).iter().any(|found| found == expected), "{check}: {output}");
    }
    let failure =
        world.check(&json!({"checks": ["system"], "thresholds": {"processors_minimum": 1_000_000}})).await.unwrap_err();
    assert_eq!((failure.class, failure.code.as_str()), (FailureClass::Permanent, "check.failed"));
    assert!(failure.message.contains("have the hardware inspected"), "{failure}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_kernel_wrote_is_judged_by_how_it_begins() {
    let mut world = World::new(EVERYTHING).await;
    for (message, expected) in [
        ("Out of memory: Killed process 4242 (python) total-vm:1kB", Some("warning investigate")),
        ("Memory cgroup out of memory: Killed process 4242 (python)", Some("warning investigate")),
        ("EXT4-fs (nvme0n1p1): Remounting filesystem read-only", Some("critical inspect_hardware")),
        ("XFS (dm-0): Metadata I/O Error detected. Shutting down filesystem.", Some("critical inspect_hardware")),
        ("watchdog: BUG: soft lockup - CPU#3 stuck for 23s! [python:4242]", Some("critical reboot")),
        ("INFO: task python:4242 blocked for more than 120 seconds.", Some("warning investigate")),
        ("mce: [Hardware Error]: Machine check events logged", Some("warning investigate")),
        (
            "mce: [Hardware Error]: CPU 3: Machine Check Exception: 5 Bank 4: be00000000800400",
            Some("critical inspect_hardware"),
        ),
        ("EDAC MC0: 1 UE memory read error on CPU_SrcID#0", Some("critical inspect_hardware")),
        ("{1}[Hardware Error]: event severity: fatal", Some("critical inspect_hardware")),
        ("nvme nvme0: I/O 23 QID 5 timeout, aborting", Some("warning investigate")),
        ("nvme nvme0: Device not ready; aborting reset, CSTS=0x1", Some("critical inspect_hardware")),
        ("EXT4-fs (sda1): mounted filesystem with ordered data mode", None),
        ("a program wrote: Out of memory: Killed process 1 (init)", None),
    ] {
        world.log(&["Linux version 6", message]);
        let output = world.kernel_log().await;
        let expected: Vec<String> = expected.iter().map(|rest| format!("kernel_log {rest}")).collect();
        assert_eq!(common::complaints(&output), expected, "{message}: {output}");
        if !expected.is_empty() {
            assert!(output.to_string().contains(&json!(message).to_string().replace('"', "")), "{message}: {output}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn old_messages_are_history() {
    let mut world = World::new(EVERYTHING).await;
    let message = "EXT4-fs (sda1): Remounting filesystem read-only";
    let mut log = vec!["quiet"; 100];
    log.insert(0, message);
    world.log(&log);
    let input = |window: u64| json!({"checks": ["kernel_log"], "fail_on": "never", "thresholds": {"kernel_log_window_seconds": window}});
    // The message is 100 seconds older than the newest one.
    assert_eq!(world.check(&input(99)).await.unwrap()["verdict"], "ok");
    assert_eq!(world.check(&input(100)).await.unwrap()["verdict"], "critical");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kernel_log_that_cannot_be_read_is_unknown_and_never_ok() {
    let mut world = World::new(EVERYTHING).await;
    for path in ["nothing", "."] {
        world.node.node.facts.kernel_log = world.node.directory.path().join(path);
        let output = world.kernel_log().await;
        assert_eq!(common::complaints(&output), ["kernel_log unknown investigate"], "{path}: {output}");
        assert_eq!(output["verdict"], "unknown");
        assert!(output.to_string().contains("cannot be read"), "{output}");
    }
    let failure = world.check(&json!({"checks": ["kernel_log"], "fail_on": "warning"})).await.unwrap_err();
    assert_eq!(failure.code, "check.failed", "{failure}");
}

#[tokio::test(flavor = "multi_thread")]
async fn each_fact_needs_its_own_grant() {
    let facts = ["system", "memory", "filesystems", "kernel-log", "processes"];
    for missing in facts {
        let granted: Vec<&str> = facts.into_iter().filter(|fact| *fact != missing).collect();
        let world = World::new(&format!("{{facts: {{read: [{}]}}}}", granted.join(", "))).await;
        let failure = world.check(&json!({"fail_on": "never"})).await.unwrap_err();
        assert_eq!((failure.class, failure.code.as_str()), (FailureClass::Denied, "facts.access-denied"), "{missing}");
        assert!(failure.message.contains(&format!("`{missing}`")), "{failure}");
        let checks: Vec<String> = granted.iter().map(|fact| fact.replace('-', "_")).collect();
        world.check(&json!({"checks": checks, "fail_on": "never"})).await.unwrap();
    }
}
