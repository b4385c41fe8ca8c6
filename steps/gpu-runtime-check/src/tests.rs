use fettle_step::{
    FailureClass,
    facts::{self, KernelMessage},
    fake::{Node, Trial},
    gpu::{Device, Ecc, Error, Pcie, RemappedRows, Snapshot, Temperature},
};
use serde_json::{Value, json};

fn device() -> Device {
    Device {
        index: 0,
        uuid: "GPU-1".to_owned(),
        name: "NVIDIA H100".to_owned(),
        pci_bus_id: "00000000:3B:00.0".to_owned(),
        vbios_version: None,
        memory_total: Some(80 << 30),
        memory_used: Some(0),
        ecc: Some(Ecc {
            enabled: true,
            pending_enabled: true,
            volatile_corrected: Some(7),
            volatile_uncorrected: Some(0),
            aggregate_corrected: Some(7),
            aggregate_uncorrected: Some(9),
        }),
        remapped_rows: Some(RemappedRows { correctable: 1, uncorrectable: 0, pending: false, failure: false }),
        temperature: Some(Temperature { current: 40, slowdown: Some(90), shutdown: Some(95) }),
        throttle_reasons: Some(0x1),
        pcie: Pcie {
            generation: Some(1),
            maximum_generation: Some(5),
            width: Some(16),
            maximum_width: Some(16),
            replay_counter: Some(3),
        },
        persistence_mode: Some(true),
        mig_enabled: Some(false),
        power_usage: Some(70_000),
        unreadable: Vec::new(),
    }
}

fn snapshot(devices: Vec<Device>) -> Snapshot {
    Snapshot {
        driver_version: "570.86.15".to_owned(),
        nvml_version: "12.570.86.15".to_owned(),
        cuda_version: (12, 8),
        devices,
    }
}

fn node(device: Device) -> Node {
    let node = Node::new();
    node.set_gpu(Ok(snapshot(vec![device]))).set_kernel_log(Ok(vec![]));
    node
}

fn run(mut input: Value) -> Value {
    input["fail_on"] = json!("never");
    Trial::new(super::step()).run(&input).unwrap()
}

/// What is not ok, as `check severity action`.
fn complaints(output: &Value) -> Vec<String> {
    let text = |finding: &Value, field: &str| finding[field].as_str().unwrap().to_owned();
    let findings = output["findings"].as_array().unwrap();
    let bad = findings.iter().filter(|finding| finding["severity"] != "ok");
    bad.map(|finding| ["check", "severity", "action"].map(|field| text(finding, field)).join(" ")).collect()
}

#[test]
fn a_healthy_gpu_is_ok_and_described() {
    let _node = node(device());
    let output = run(json!({}));
    assert_eq!(complaints(&output), [""; 0]);
    assert_eq!(
        (&output["verdict"], &output["driver_version"], &output["cuda_version"]),
        (&json!("ok"), &json!("570.86.15"), &json!("12.8"))
    );
    assert_eq!(
        output["devices"],
        json!([{"index": 0, "uuid": "GPU-1", "name": "NVIDIA H100", "pci_bus_id": "00000000:3B:00.0", "memory_total": 80_u64 << 30}])
    );
    assert_eq!(output["findings"].as_array().unwrap().len(), 8);
}

#[test]
fn without_a_driver_there_is_nothing_to_check_unless_it_is_required() {
    let node = Node::new();
    node.set_gpu(Err(Error::NotApplicable("libnvidia-ml.so.1 is not there".to_owned())));
    let output = run(json!({}));
    assert_eq!(
        output,
        json!({"verdict": "not_applicable", "reason": "no NVIDIA driver", "devices": [], "findings": []})
    );
    assert!(node.logs().iter().any(|(_, line)| line.contains("libnvidia-ml.so.1 is not there")));
    let failure = Trial::new(super::step()).run(&json!({"required": true})).unwrap_err();
    assert_eq!((failure.class, failure.code.as_str()), (FailureClass::Permanent, "gpu.required"));
}

#[test]
fn a_driver_that_hangs_is_critical_and_its_xids_are_told() {
    let node = Node::new();
    node.set_gpu(Err(Error::Unresponsive("no answer within 10 s".to_owned())));
    node.set_kernel_log(Ok(vec![message("NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.", 1)]));
    assert_eq!(complaints(&run(json!({}))), ["gpu.driver critical reboot", "gpu.xid critical reboot"]);
    let failure = Trial::new(super::step()).run(&json!({})).unwrap_err();
    assert_eq!((failure.class, failure.code.as_str()), (FailureClass::Permanent, "check.failed"));
    assert!(failure.message.contains("no answer within 10 s") && failure.message.contains("XID 79"), "{failure}");
}

#[test]
fn what_was_not_granted_is_a_mistake_in_the_definition() {
    let node = Node::new();
    assert_eq!(Trial::new(super::step()).run(&json!({})).unwrap_err().code, "gpu.access-denied");
    node.set_gpu(Ok(snapshot(vec![device()])));
    assert_eq!(Trial::new(super::step()).run(&json!({})).unwrap_err().code, "facts.access-denied");
    assert_eq!(run(json!({"checks": ["ecc"]}))["verdict"], "ok");
    node.set_kernel_log(Err(facts::Error::Unavailable("no /dev/kmsg".to_owned())));
    assert_eq!(complaints(&run(json!({}))), ["gpu.xid unknown investigate"]);
}

/// Changes a healthy GPU into another.
type Change = fn(&mut Device);

fn ecc(device: &mut Device) -> &mut Ecc {
    device.ecc.as_mut().unwrap()
}

fn rows(device: &mut Device) -> &mut RemappedRows {
    device.remapped_rows.as_mut().unwrap()
}

fn unreadable(device: &mut Device, field: &str) {
    (device.ecc, device.remapped_rows) = match field {
        "ecc" => (None, device.remapped_rows),
        _ => (device.ecc, None),
    };
    device.unreadable = vec![field.to_owned()];
}

fn heat(device: &mut Device, current: u32, slowdown: Option<u32>) {
    device.temperature = Some(Temperature { current, slowdown, shutdown: None });
}

#[test]
fn each_rule_finds_what_it_is_for() {
    let table: [(Change, Option<&str>); 29] = [
        (|device| ecc(device).volatile_uncorrected = Some(1), Some("gpu.ecc critical reset_gpu")),
        (|device| ecc(device).volatile_uncorrected = None, Some("gpu.ecc unknown investigate")),
        (|device| ecc(device).aggregate_uncorrected = Some(50), None),
        (|device| ecc(device).pending_enabled = false, Some("gpu.ecc warning reboot")),
        (|device| device.ecc = None, None),
        (|device| unreadable(device, "ecc"), Some("gpu.ecc unknown investigate")),
        (|device| rows(device).pending = true, Some("gpu.remapped_rows warning reset_gpu")),
        (|device| rows(device).failure = true, Some("gpu.remapped_rows critical inspect_hardware")),
        (|device| device.remapped_rows = None, None),
        (|device| unreadable(device, "remapped-rows"), Some("gpu.remapped_rows unknown investigate")),
        (|device| heat(device, 86, Some(90)), None),
        (|device| heat(device, 87, Some(90)), Some("gpu.temperature warning investigate")),
        (|device| heat(device, 90, Some(90)), Some("gpu.temperature critical drain")),
        (|device| heat(device, 85, Some(105)), None),
        (|device| heat(device, 82, None), None),
        (|device| heat(device, 83, None), Some("gpu.temperature warning investigate")),
        (|device| heat(device, 90, None), Some("gpu.temperature critical drain")),
        (|device| device.temperature = None, Some("gpu.temperature unknown investigate")),
        (|device| device.throttle_reasons = Some(0), None),
        (|device| device.throttle_reasons = Some(0x4), None),
        (|device| device.throttle_reasons = Some(0x8), Some("gpu.throttle critical inspect_hardware")),
        (|device| device.throttle_reasons = Some(0x40 | 0x4), Some("gpu.throttle critical inspect_hardware")),
        (|device| device.throttle_reasons = Some(0x20), Some("gpu.throttle critical inspect_hardware")),
        (|device| device.throttle_reasons = Some(0x80 | 0x1), Some("gpu.throttle critical inspect_hardware")),
        (|device| device.throttle_reasons = Some(0x113), None),
        (|device| device.throttle_reasons = None, Some("gpu.throttle unknown investigate")),
        (|device| device.pcie.width = Some(8), Some("gpu.pcie critical inspect_hardware")),
        (|device| device.pcie.width = None, Some("gpu.pcie unknown investigate")),
        (|device| device.pcie.generation = Some(1), None),
    ];
    for (index, (change, expected)) in table.into_iter().enumerate() {
        let mut device = device();
        change(&mut device);
        let _node = node(device);
        let expected: Vec<&str> = expected.into_iter().collect();
        assert_eq!(complaints(&run(json!({}))), expected, "row {index}");
    }
}

#[test]
fn what_the_input_asks_for_is_judged() {
    let _node = node(device());
    let critical = "gpu.driver critical drain";
    for (input, expected) in [
        (json!({"expected_devices": 1}), vec![]),
        (json!({"expected_devices": 8}), vec!["gpu.inventory critical inspect_hardware"]),
        (json!({"driver_minimum": "570"}), vec![]),
        (json!({"driver_minimum": "570.100"}), vec![critical]),
        (json!({"cuda": "11"}), vec![]),
        (json!({"cuda": "12.8"}), vec![]),
        (json!({"cuda": "12.9"}), vec!["gpu.driver warning investigate"]),
        (json!({"cuda": "13"}), vec![critical]),
        (json!({"cuda": "13", "driver_minimum": "580"}), vec![critical, critical]),
        (json!({"pcie_generation_minimum": 5}), vec![]),
        (json!({"pcie_generation_minimum": 6}), vec!["gpu.pcie warning investigate"]),
        (json!({"thresholds": {"throttle_mask": 1}}), vec!["gpu.throttle critical inspect_hardware"]),
        (json!({"thresholds": {"temperature_margin_celsius": 50}}), vec!["gpu.temperature warning investigate"]),
    ] {
        assert_eq!(complaints(&run(input.clone())), expected, "{input}");
    }
}

#[test]
fn an_old_driver_does_not_run_newer_cuda() {
    let node = node(device());
    for (driver, served, cuda, fits) in [
        ("580.65.06", (13, 0), "13", true),
        ("575.51.03", (13, 0), "13", false),
        ("525.60.13", (12, 0), "12", true),
        ("520.61.05", (12, 0), "12", false),
        ("450.36", (11, 0), "11", true),
        ("440.33", (11, 0), "11", false),
        ("700.1", (15, 0), "15", true),
        ("600.1", (14, 0), "15", false),
    ] {
        let answer = Snapshot { driver_version: driver.to_owned(), cuda_version: served, ..snapshot(vec![device()]) };
        node.set_gpu(Ok(answer));
        assert_eq!(complaints(&run(json!({"cuda": cuda}))).is_empty(), fits, "{driver} {cuda}");
    }
    node.set_gpu(Ok(Snapshot { driver_version: "none".to_owned(), ..snapshot(vec![device()]) }));
    assert_eq!(complaints(&run(json!({}))), ["gpu.driver unknown investigate"]);
    node.set_gpu(Ok(snapshot(vec![])));
    assert_eq!(complaints(&run(json!({}))), ["gpu.inventory critical inspect_hardware"]);
}

#[test]
fn error_correction_can_be_required() {
    for (change, expected) in [
        ((|_| ()) as Change, vec![]),
        (|device| (ecc(device).enabled, ecc(device).pending_enabled) = (false, false), vec!["gpu.ecc critical reboot"]),
        (|device| device.ecc = None, vec!["gpu.ecc unknown investigate"]),
    ] {
        let mut device = device();
        change(&mut device);
        let _node = node(device);
        assert_eq!(complaints(&run(json!({"ecc_required": true}))), expected);
    }
}

fn message(text: &str, since_boot_seconds: u64) -> KernelMessage {
    KernelMessage { sequence: 1, priority: 3, since_boot_us: since_boot_seconds * 1_000_000, text: text.to_owned() }
}

#[test]
fn xids_are_judged_by_class() {
    for (text, expected) in [
        ("NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', GPU has fallen off the bus.", Some("critical reboot")),
        ("NVRM: Xid (PCI:0000:3b:00): 95, pid=1, Uncontained ECC error", Some("critical reset_gpu")),
        ("NVRM: Xid (0000:3b:00): 48, Double Bit ECC Error", Some("warning investigate")),
        ("NVRM: Xid (PCI:0000:3b:00): 13, pid=5, name=python, Graphics Exception", Some("warning investigate")),
        ("NVRM: Xid (PCI:0000:3b:00): 999, something new", Some("warning investigate")),
        ("NVRM: Xid (PCI:0000:3b:00): none", None),
        ("NVRM: loading NVIDIA UNIX x86_64 Kernel Module", None),
        ("python: NVRM: Xid (PCI:0000:3b:00): 79, a name that a user chose", None),
    ] {
        let node = node(device());
        node.set_kernel_log(Ok(vec![message(text, 1)]));
        let expected: Vec<String> = expected.map(|rest| format!("gpu.xid {rest}")).into_iter().collect();
        assert_eq!(complaints(&run(json!({"checks": ["xid"]}))), expected, "{text}");
    }
}

#[test]
fn xids_count_once_within_their_window_and_lists_can_be_changed() {
    let xid = |number: u32, seconds: u64| message(&format!("NVRM: Xid (PCI:0000:3b:00): {number}, x"), seconds);
    let node = node(device());
    node.set_kernel_log(Ok(vec![xid(79, 1), xid(31, 100_000), xid(31, 100_001), message("later", 100_010)]));
    let output = run(json!({}));
    assert_eq!(complaints(&output), ["gpu.xid warning investigate"]);
    assert!(output.to_string().contains("XID 31 on PCI:0000:3b:00 (seen 2 times)"), "{output}");
    let all = json!({"window": null});
    assert_eq!(Trial::new(super::step()).run(&all).unwrap_err().class, FailureClass::InvalidInput);
    let wide = json!({"thresholds": {"xid_window_seconds": 1_000_000}, "xids": {"reset": [31], "reboot": []}});
    assert_eq!(complaints(&run(wide)), ["gpu.xid critical reset_gpu", "gpu.xid warning investigate"]);
    assert_eq!(complaints(&run(json!({"xids": {"ignore": [31]}}))), [""; 0]);
}
