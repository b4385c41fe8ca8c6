//! `gpu.runtime.check@v1` in the real host: the child process, a driver that plays a scenario, and what
//! the check makes of it.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use crate::common::{self, Heard, TestNode};
use fettle_host::{capabilities::exec::leftovers, sandbox::Step};
use fettle_model::{
    failure::{Failure, FailureClass},
    grant::Grants,
};
use serde_json::{Value, json};

const GRANT: &str = "{gpu: {read: true}, facts: {read: [kernel-log]}}";

/// Far more than a scenario takes, far less than a test may.
const DEADLINE: Duration = Duration::from_secs(20);

/// A healthy GPU of a large training node.
fn device() -> Value {
    json!({
        "uuid": "GPU-1", "name": "NVIDIA H100 80GB HBM3", "pci_bus_id": "00000000:3B:00.0",
        "vbios_version": "96.00.89.00.01", "memory_total": 85_520_809_984_u64, "memory_used": 1_048_576,
        "ecc": {"current": true, "pending": true},
        "volatile_corrected": 3, "volatile_uncorrected": 0, "aggregate_corrected": 9, "aggregate_uncorrected": 1,
        "remapped_rows": {"correctable": 1, "uncorrectable": 0, "pending": false, "failure": false},
        "temperature": 41, "slowdown": 90, "shutdown": 95, "throttle_reasons": 1,
        "pcie_generation": 1, "pcie_maximum_generation": 5, "pcie_width": 16, "pcie_maximum_width": 16,
        "pcie_replay_counter": 0, "persistence_mode": true, "mig": {"current": false, "pending": false},
        "power_usage": 70_000,
    })
}

/// A driver with two GPUs, the second of which differs from a healthy one; null takes a field away.
fn scenario(differences: Value) -> Value {
    let (mut first, mut second) = (device(), device());
    first["uuid"] = json!("GPU-0");
    for (field, value) in differences.as_object().unwrap() {
        second[field] = value.clone();
    }
    second.as_object_mut().unwrap().retain(|_, value| !value.is_null());
    json!({
        "driver_version": "570.86.15", "nvml_version": "12.570.86.15", "cuda_driver_version": 12_080,
        "devices": [first, second],
    })
}

struct World {
    node: TestNode,
    grants: Grants,
    step: Step,
}

impl World {
    /// A node with this driver, and a kernel log with these messages.
    async fn new(scenario: &Value, messages: &[&str]) -> Self {
        let mut node = TestNode::new();
        let path = node.directory.path().join("scenario.json");
        node.node.gpu.library = Some(fettle_nvml_scenario::library());
        let mark = node.directory.path().to_string_lossy().into_owned();
        node.node.gpu.environment = [
            (fettle_nvml_scenario::VARIABLE.to_owned(), path.to_string_lossy().into_owned()),
            (leftovers::MARK.to_owned(), mark),
        ]
        .into();
        node.node.gpu.deadline = DEADLINE;
        node.node.facts.kernel_log = common::kernel_log(&node.directory, messages);
        let grants = fettle_model::document::read(GRANT).unwrap();
        let step = node.link("gpu-runtime-check", &grants).await;
        let world = Self { node, grants, step };
        world.play(scenario);
        world
    }

    /// The driver is this one from now on.
    fn play(&self, scenario: &Value) {
        std::fs::write(self.node.directory.path().join("scenario.json"), scenario.to_string()).unwrap();
    }

    async fn check(&self, input: &Value) -> Result<Value, Failure> {
        let call = self.node.call(&self.grants, &Arc::<Heard>::default(), DEADLINE * 2);
        self.step.run(call, &input.to_string()).await
    }

    /// What the check answers, whatever it found.
    async fn findings(&self) -> Value {
        self.check(&json!({"fail_on": "never"})).await.unwrap()
    }

    /// Children that ask the driver and are still there.
    fn children(&self) -> usize {
        let mark = self.node.directory.path().to_string_lossy().into_owned();
        common::marked_processes(&mark)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_without_a_driver_has_nothing_to_check() {
    let mut world = World::new(&json!({}), &[]).await;
    world.node.node.gpu.library = Some(world.node.directory.path().join("libnvidia-ml.so.1"));
    let output = world.check(&json!({})).await.unwrap();
    assert_eq!(
        output,
        json!({"verdict": "not_applicable", "reason": "no NVIDIA driver", "devices": [], "findings": []})
    );
    let failure = world.check(&json!({"required": true})).await.unwrap_err();
    assert_eq!((failure.class, failure.code.as_str()), (FailureClass::Permanent, "gpu.required"), "{failure}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_library_without_its_kernel_module_has_nothing_to_check_either() {
    // NVML_ERROR_DRIVER_NOT_LOADED
    let output = World::new(&json!({"errors": {"nvmlInit_v2": 9}}), &[]).await.check(&json!({})).await.unwrap();
    assert_eq!((&output["verdict"], &output["reason"]), (&json!("not_applicable"), &json!("no NVIDIA driver")));
}

#[tokio::test(flavor = "multi_thread")]
async fn healthy_gpus_are_ok_and_described() {
    let world = World::new(&scenario(json!({})), &["usb 1-1: new device"]).await;
    let output = world.check(&json!({"expected_devices": 2, "driver_minimum": "570", "cuda": "12.4"})).await.unwrap();
    assert_eq!(common::complaints(&output), [""; 0], "{output}");
    assert_eq!(output["verdict"], "ok");
    assert_eq!((&output["driver_version"], &output["cuda_version"]), (&json!("570.86.15"), &json!("12.8")));
    let second = json!({
        "index": 1, "uuid": "GPU-1", "name": "NVIDIA H100 80GB HBM3", "pci_bus_id": "00000000:3B:00.0",
        "memory_total": 85_520_809_984_u64,
    });
    assert_eq!(output["devices"][1], second);
    assert_eq!(output["devices"].as_array().unwrap().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_host_passes_on_every_field_of_the_driver() {
    let world =
        World::new(&scenario(json!({"mig": {"current": true, "pending": true}, "persistence_mode": false})), &[]).await;
    let snapshot = world.node.node.gpu.snapshot().await.unwrap();
    assert_eq!((snapshot.nvml_version.as_str(), snapshot.cuda_version), ("12.570.86.15", (12, 8)));
    let expected = json!({
        "index": 1, "uuid": "GPU-1", "name": "NVIDIA H100 80GB HBM3", "pci_bus_id": "00000000:3B:00.0",
        "vbios_version": "96.00.89.00.01", "memory_total": 85_520_809_984_u64, "memory_used": 1_048_576,
        "ecc": {
            "enabled": true, "pending_enabled": true, "volatile_corrected": 3, "volatile_uncorrected": 0,
            "aggregate_corrected": 9, "aggregate_uncorrected": 1,
        },
        "remapped_rows": {"correctable": 1, "uncorrectable": 0, "pending": false, "failure": false},
        "temperature": {"current": 41, "slowdown": 90, "shutdown": 95}, "throttle_reasons": 1,
        "pcie": {
            "generation": 1, "maximum_generation": 5, "width": 16, "maximum_width": 16, "replay_counter": 0,
        },
        "persistence_mode": false, "mig_enabled": true, "power_usage": 70_000,
        "unreadable": [],
    });
    assert_eq!(serde_json::to_value(&snapshot.devices[1]).unwrap(), expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_with_a_gpu_is_told_with_severity_and_action() {
    let world = World::new(&json!({}), &[]).await;
    let rows = |pending, failure| json!({"correctable": 2, "uncorrectable": 1, "pending": pending, "failure": failure});
    for (what, differences, verdict, complaints) in [
        (
            "errors that could not be corrected",
            json!({"volatile_uncorrected": 1}),
            "critical",
            &["gpu.ecc critical reset_gpu"][..],
        ),
        ("errors that were corrected", json!({"volatile_corrected": 100_000}), "ok", &[]),
        ("errors of long ago", json!({"aggregate_uncorrected": 100_000}), "ok", &[]),
        (
            "correction changes at the next reboot",
            json!({"ecc": {"current": true, "pending": false}}),
            "warning",
            &["gpu.ecc warning reboot"],
        ),
        (
            "a row waits to be replaced",
            json!({"remapped_rows": rows(true, false)}),
            "warning",
            &["gpu.remapped_rows warning reset_gpu"],
        ),
        (
            "a row cannot be replaced",
            json!({"remapped_rows": rows(false, true)}),
            "critical",
            &["gpu.remapped_rows critical inspect_hardware"],
        ),
        ("software power cap", json!({"throttle_reasons": 0x4}), "ok", &[]),
        (
            "hardware slowdown",
            json!({"throttle_reasons": 0x8}),
            "critical",
            &["gpu.throttle critical inspect_hardware"],
        ),
        (
            "software thermal slowdown",
            json!({"throttle_reasons": 0x20}),
            "critical",
            &["gpu.throttle critical inspect_hardware"],
        ),
        (
            "hardware thermal slowdown",
            json!({"throttle_reasons": 0x40}),
            "critical",
            &["gpu.throttle critical inspect_hardware"],
        ),
        (
            "power brake, beside the power cap",
            json!({"throttle_reasons": 0x84}),
            "critical",
            &["gpu.throttle critical inspect_hardware"],
        ),
        ("just cool enough", json!({"temperature": 86}), "ok", &[]),
        ("near its limit", json!({"temperature": 87}), "warning", &["gpu.temperature warning investigate"]),
        ("at its limit", json!({"temperature": 90}), "critical", &["gpu.temperature critical drain"]),
        (
            "hot, with no limit of its own",
            json!({"temperature": 90, "slowdown": null}),
            "critical",
            &["gpu.temperature critical drain"],
        ),
        ("half of its lanes", json!({"pcie_width": 8}), "critical", &["gpu.pcie critical inspect_hardware"]),
    ] {
        world.play(&scenario(differences));
        let output = world.findings().await;
        assert_eq!(common::complaints(&output), complaints, "{what}: {output}");
        assert_eq!(output["verdict"], verdict, "{what}: {output}");
        let bad = output["findings"].as_array().unwrap().iter().filter(|finding| finding["severity"] != "ok");
        for finding in bad {
            assert!(finding["observed"].as_str().unwrap().contains("GPU 1 (GPU-1)"), "{what}: {finding}");
        }
        assert_eq!(world.check(&json!({})).await.is_err(), verdict == "critical", "{what}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_driver_does_not_tell_is_unknown_and_never_ok() {
    // NVML_ERROR_UNKNOWN
    const CODE: u32 = 999;
    let world = World::new(&json!({}), &[]).await;
    for (call, check) in [
        ("nvmlDeviceGetTemperature", "gpu.temperature"),
        ("nvmlDeviceGetCurrentClocksThrottleReasons", "gpu.throttle"),
        ("nvmlDeviceGetCurrPcieLinkWidth", "gpu.pcie"),
        ("nvmlDeviceGetMaxPcieLinkWidth", "gpu.pcie"),
        ("nvmlDeviceGetTotalEccErrors", "gpu.ecc"),
        ("nvmlDeviceGetEccMode", "gpu.ecc"),
        ("nvmlDeviceGetRemappedRows", "gpu.remapped_rows"),
    ] {
        world.play(&scenario(json!({"errors": {call: CODE}})));
        let output = world.findings().await;
        assert_eq!(common::complaints(&output), [format!("{check} unknown investigate")], "{call}: {output}");
        assert_eq!(output["verdict"], "unknown", "{call}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_gpu_does_not_have_is_not_held_against_it() {
    let fields = json!({"ecc": null, "remapped_rows": null, "mig": null, "vbios_version": null, "power_usage": null});
    let world = World::new(&scenario(fields), &[]).await;
    assert_eq!(common::complaints(&world.findings().await), [""; 0]);
    let required = world.check(&json!({"ecc_required": true, "fail_on": "never"})).await.unwrap();
    assert_eq!(common::complaints(&required), ["gpu.ecc unknown investigate"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_of_the_driver_in_the_kernel_log_are_judged_by_their_number() {
    let log = [
        "NVRM: Xid (PCI:0000:3b:00): 79, pid=1, GPU has fallen off the bus.",
        "NVRM: Xid (PCI:0000:3b:00): 13, pid=2, Graphics Exception",
        "NVRM: Xid (PCI:0000:3b:00): 13, pid=3, Graphics Exception",
        "a program says: NVRM: Xid (PCI:0000:3b:00): 48, made up",
    ];
    let output = World::new(&scenario(json!({})), &log).await.findings().await;
    assert_eq!(common::complaints(&output), ["gpu.xid warning investigate", "gpu.xid critical reboot"], "{output}");
    let text = output.to_string();
    assert!(text.contains("XID 13 on PCI:0000:3b:00 (seen 2 times)") && text.contains("XID 79"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_driver_that_hangs_is_reported_within_the_deadline_and_leaves_no_child() {
    let log = ["NVRM: Xid (PCI:0000:3b:00): 79, pid=1, GPU has fallen off the bus."];
    let mut world = World::new(&json!({}), &log).await;
    world.node.node.gpu.deadline = Duration::from_millis(300);
    for call in ["nvmlInit_v2", "nvmlDeviceGetTemperature", "nvmlShutdown"] {
        let mut hanging = scenario(json!({}));
        hanging["hang"] = json!(call);
        world.play(&hanging);
        let begun = Instant::now();
        let output = world.findings().await;
        assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
        assert_eq!(common::complaints(&output), ["gpu.driver critical reboot", "gpu.xid critical reboot"], "{output}");
        assert!(output.to_string().contains("did not answer within 300ms"), "{output}");
        assert_eq!(world.children(), 0, "{call}");
        let failure = world.check(&json!({})).await.unwrap_err();
        assert_eq!(failure.code, "check.failed", "{failure}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn dropping_the_question_kills_the_child() {
    let world = World::new(&json!({"hang": true}), &[]).await;
    let asked = tokio::time::timeout(Duration::from_millis(300), world.node.node.gpu.snapshot());
    assert!(asked.await.is_err());
    common::eventually("the child is gone", || world.children() == 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_library_that_crashes_takes_only_the_child_with_it() {
    let world = World::new(&json!({}), &[]).await;
    for call in ["nvmlInit_v2", "nvmlDeviceGetName"] {
        let mut crashing = scenario(json!({}));
        crashing["crash"] = json!(call);
        world.play(&crashing);
        let output = world.findings().await;
        assert_eq!(common::complaints(&output), ["gpu.driver critical reboot"], "{output}");
        assert!(output.to_string().contains("the driver's library crashed with signal 6"), "{output}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_gpu_is_a_sick_driver_that_names_it() {
    // NVML_ERROR_GPU_IS_LOST
    let world = World::new(&json!({}), &[]).await;
    for call in ["nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetUUID"] {
        world.play(&scenario(json!({"errors": {call: 15}})));
        let output = world.findings().await;
        assert_eq!(common::complaints(&output), ["gpu.driver critical reboot"], "{output}");
        assert!(output.to_string().contains("about device 1"), "{output}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_check_without_its_grant_is_denied() {
    let world = World::new(&scenario(json!({})), &[]).await;
    for (grant, code) in [
        ("{gpu: {}, facts: {read: [kernel-log]}}", "gpu.access-denied"),
        ("{gpu: {read: true}, facts: {read: [memory]}}", "facts.access-denied"),
    ] {
        let failure = world.node.run("gpu-runtime-check", grant, &json!({})).await.unwrap_err();
        assert_eq!((failure.class, failure.code.as_str()), (FailureClass::Denied, code), "{failure}");
    }
}
