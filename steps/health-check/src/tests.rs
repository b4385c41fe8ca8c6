use fettle_step::{
    FailureClass,
    facts::{Error, Filesystem, KernelMessage, MemoryUsage, Process, SystemInformation},
    fake::{Node, Trial},
};
use serde_json::{Value, json};

const GIB: u64 = 1 << 30;

fn system() -> SystemInformation {
    SystemInformation {
        hostname: "node".to_owned(),
        operating_system: "Debian".to_owned(),
        kernel_release: "6.1.0".to_owned(),
        architecture: "x86_64".to_owned(),
        boot_id: "boot".to_owned(),
        uptime_seconds: 100_000,
        processors: 64,
    }
}

fn memory(available: u64) -> MemoryUsage {
    MemoryUsage { total: 100 * GIB, available: available * GIB, swap_total: 0, swap_free: 0 }
}

fn filesystem(mount_point: &str, kind: &str, used_percent: u64) -> Filesystem {
    Filesystem {
        mount_point: mount_point.to_owned(),
        source: format!("/dev/{kind}{mount_point}"),
        kind: kind.to_owned(),
        read_only: false,
        total: 100 * GIB,
        available: (100 - used_percent) * GIB,
        inodes: 1000,
        inodes_free: 900,
    }
}

fn message(text: &str, since_boot_seconds: u64) -> KernelMessage {
    KernelMessage { sequence: 1, priority: 3, since_boot_us: since_boot_seconds * 1_000_000, text: text.to_owned() }
}

fn process(pid: u32, state: char, age_seconds: u64) -> Process {
    Process { pid, name: format!("p{pid}"), state, age_seconds }
}

fn healthy() -> Node {
    let node = Node::new();
    node.set_system(Ok(system()))
        .set_memory(Ok(memory(50)))
        .set_filesystems(Ok(vec![filesystem("/", "ext4", 40)]))
        .set_kernel_log(Ok(vec![message("Linux version 6.1.0", 0)]))
        .set_processes(Ok(vec![process(1, 'S', 100_000)]));
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
fn a_healthy_node_is_ok_and_every_check_says_what_it_saw() {
    let _node = healthy();
    let output = run(json!({}));
    assert_eq!(output["verdict"], "ok");
    let checks: Vec<&str> =
        output["findings"].as_array().unwrap().iter().map(|finding| finding["check"].as_str().unwrap()).collect();
    assert_eq!(checks, ["system", "memory", "filesystems", "kernel_log", "processes", "processes"]);
}

#[test]
fn the_same_facts_give_the_same_findings_in_the_same_order() {
    let _node = healthy();
    let ordered = run(json!({"checks": ["system", "memory", "processes"]}));
    assert_eq!(run(json!({"checks": ["processes", "memory", "system", "memory"]})), ordered);
}

#[test]
fn a_fact_that_cannot_be_read_is_unknown_and_one_not_granted_a_mistake() {
    let node = healthy();
    node.set_memory(Err(Error::Unavailable("no /proc".to_owned())));
    let output = run(json!({"checks": ["memory", "system"]}));
    assert_eq!(
        (&output["verdict"], complaints(&output)),
        (&json!("unknown"), vec!["memory unknown investigate".to_owned()])
    );
    node.set_memory(Err(Error::AccessDenied));
    let failure = Trial::new(super::step()).run(&json!({"checks": ["memory"]})).unwrap_err();
    assert_eq!(failure.class, FailureClass::Denied);
    assert!(failure.message.contains("`memory`") && failure.message.contains("facts.read"), "{failure}");
}

#[test]
fn only_the_facts_that_are_checked_are_read() {
    let node = healthy();
    run(json!({"checks": ["kernel_log"]}));
    assert_eq!(node.calls(), ["facts.kernel_log"]);
}

#[test]
fn memory_is_judged_by_what_is_available() {
    for (available, swap_free, expected) in [
        (50, 10, vec![]),
        (10, 10, vec![]),
        (9, 10, vec!["memory warning investigate"]),
        (4, 10, vec!["memory critical drain"]),
        (50, 1, vec!["memory warning investigate"]),
    ] {
        let node = healthy();
        node.set_memory(Ok(MemoryUsage { swap_total: 10, swap_free, ..memory(available) }));
        assert_eq!(complaints(&run(json!({"checks": ["memory"]}))), expected, "{available} {swap_free}");
    }
    let node = healthy();
    node.set_memory(Ok(MemoryUsage { total: 0, available: 0, swap_total: 0, swap_free: 0 }));
    assert_eq!(complaints(&run(json!({"checks": ["memory"]}))), ["memory unknown investigate"]);
}

#[test]
fn full_filesystems_are_found_and_images_are_not() {
    let read_only = |filesystem: Filesystem| Filesystem { read_only: true, ..filesystem };
    let inodes_full = Filesystem { inodes_free: 10, ..filesystem("/", "ext4", 1) };
    let no_inodes = Filesystem { inodes: 0, inodes_free: 0, ..filesystem("/", "btrfs", 1) };
    let warning = "filesystems warning investigate";
    let critical = "filesystems critical drain";
    for (filesystem, expected) in [
        (filesystem("/", "ext4", 89), vec![]),
        (filesystem("/", "ext4", 90), vec![warning]),
        (filesystem("/data", "xfs", 97), vec![critical]),
        (inodes_full, vec![critical]),
        (no_inodes, vec![]),
        (filesystem("/", "overlay", 98), vec![critical]),
        (filesystem("/var/lib/containers/x/merged", "overlay", 98), vec![]),
        (read_only(filesystem("/", "overlay", 10)), vec![]),
        (read_only(filesystem("/snap/core", "squashfs", 100)), vec![]),
        (filesystem("/snap/core", "squashfs", 100), vec![]),
        (read_only(filesystem("/media/cd", "iso9660", 100)), vec![]),
        (filesystem("/run/user/lxcfs", "fuse.lxcfs", 100), vec![]),
        (read_only(filesystem("/mnt/share", "nfs4", 50)), vec![]),
        (read_only(filesystem("/", "ext4", 50)), vec![warning]),
    ] {
        let node = healthy();
        node.set_filesystems(Ok(vec![filesystem.clone()]));
        assert_eq!(complaints(&run(json!({"checks": ["filesystems"]}))), expected, "{filesystem:?}");
    }
}

#[test]
fn one_filesystem_is_judged_once_however_often_it_is_mounted() {
    let node = healthy();
    let full = filesystem("/", "ext4", 99);
    let bound = Filesystem { mount_point: "/var/lib/kubelet".to_owned(), ..full.clone() };
    let bound_read_only = Filesystem { mount_point: "/etc/hosts".to_owned(), read_only: true, ..full.clone() };
    node.set_filesystems(Ok(vec![full, bound, bound_read_only]));
    assert_eq!(complaints(&run(json!({"checks": ["filesystems"]}))), ["filesystems critical drain"]);
    node.set_filesystems(Ok(vec![]));
    assert_eq!(complaints(&run(json!({"checks": ["filesystems"]}))), ["filesystems unknown investigate"]);
}

#[test]
fn a_mount_that_is_meant_to_be_read_only_is_named() {
    let node = healthy();
    node.set_filesystems(Ok(vec![Filesystem { read_only: true, ..filesystem("/usr", "ext4", 50) }]));
    let input = json!({"checks": ["filesystems"], "thresholds": {"read_only_mount_points": ["/usr"]}});
    assert_eq!(complaints(&run(input)), [""; 0]);
}

#[test]
fn kernel_messages_are_told_apart() {
    for (text, expected) in [
        ("Out of memory: Killed process 81 (python) total-vm:1kB", Some("warning investigate")),
        ("Memory cgroup out of memory: Killed process 81 (python)", Some("warning investigate")),
        ("watchdog: BUG: soft lockup - CPU#3 stuck for 23s! [python:81]", Some("critical reboot")),
        ("NMI watchdog: Watchdog detected hard LOCKUP on cpu 3", Some("critical reboot")),
        ("rcu: INFO: rcu_preempt self-detected stall on CPU", Some("warning investigate")),
        ("INFO: task kworker/0:1:7 blocked for more than 120 seconds.", Some("warning investigate")),
        ("EXT4-fs (sda1): Remounting filesystem read-only", Some("critical inspect_hardware")),
        ("XFS (nvme0n1p1): Filesystem has been shut down due to log error (0x2).", Some("critical inspect_hardware")),
        ("BTRFS info (device sdb): forced readonly", Some("critical inspect_hardware")),
        ("nvme nvme0: I/O 12 QID 3 timeout, aborting", Some("warning investigate")),
        ("nvme nvme0: controller is down; will reset: CSTS=0xffffffff", Some("warning investigate")),
        ("nvme nvme0: Disabling device after reset failure: -19", Some("critical inspect_hardware")),
        ("nvme0n1: I/O Cmd(0x2) @ LBA 0, 8 blocks, I/O Error (sct 0x2 / sc 0x81)", Some("warning investigate")),
        ("I/O error, dev nvme0n1, sector 0 op 0x0:(READ)", Some("warning investigate")),
        ("mce: [Hardware Error]: Machine check events logged", Some("warning investigate")),
        ("[Hardware Error]: Corrected error, no action required.", Some("warning investigate")),
        ("{3}[Hardware Error]: event severity: corrected", Some("warning investigate")),
        ("{3}[Hardware Error]: event severity: fatal", Some("critical inspect_hardware")),
        ("EDAC MC0: 1 CE memory read error on CPU_SrcID#0", Some("warning investigate")),
        ("EDAC MC0: 1 UE memory read error on CPU_SrcID#0", Some("critical inspect_hardware")),
        ("mce: [Hardware Error]: CPU 0: Machine Check Exception: 5 Bank 3: be00", Some("critical inspect_hardware")),
        ("EXT4-fs (sda1): mounted filesystem with ordered data mode", None),
        ("nvme nvme0: 16/0/0 default/read/poll queues", None),
        ("EDAC MC0: Giving out device to module skx_edac", None),
        ("mce: CPU0: Thermal monitoring enabled (TM1)", None),
        ("systemd[1]: watchdog: BUG: soft lockup is only a name here", None),
        ("python[81]: EXT4-fs (sda1): Remounting filesystem read-only", None),
        ("", None),
    ] {
        let node = healthy();
        node.set_kernel_log(Ok(vec![message(text, 99_000)]));
        let expected: Vec<String> = expected.map(|rest| format!("kernel_log {rest}")).into_iter().collect();
        assert_eq!(complaints(&run(json!({"checks": ["kernel_log"]}))), expected, "{text}");
    }
}

#[test]
fn old_messages_do_not_count_and_equal_ones_count_once() {
    let oom = "Out of memory: Killed process 81 (python)";
    let all = json!({});
    for (messages, input, expected) in [
        (vec![message(oom, 99_000), message(oom, 99_500)], &all, 1),
        (vec![message(oom, 13_599)], &all, 0),
        (vec![message(oom, 13_601)], &all, 1),
        (vec![message(oom, 13_599)], &json!({"checks": ["kernel_log"]}), 1),
        (vec![message(oom, 99_000)], &json!({"thresholds": {"kernel_log_window_seconds": 60}}), 0),
    ] {
        let node = healthy();
        node.set_kernel_log(Ok(messages.clone()));
        let output = run(input.clone());
        assert_eq!(complaints(&output).len(), expected, "{messages:?}");
        if messages.len() == 2 {
            assert!(output.to_string().contains("(seen 2 times); the last message: Out of memory"), "{output}");
        }
    }
}

#[test]
fn processes_that_pile_up_are_a_warning() {
    let many = |state: char, age: u64, count: u32| (1..=count).map(|pid| process(pid, state, age)).collect::<Vec<_>>();
    for (processes, expected) in [
        (many('D', 300, 4), vec![]),
        (many('D', 300, 5), vec!["processes warning investigate"]),
        (many('D', 299, 50), vec![]),
        (many('Z', 1, 99), vec![]),
        (many('Z', 1, 100), vec!["processes warning investigate"]),
        (vec![], vec!["processes unknown investigate"]),
    ] {
        let node = healthy();
        node.set_processes(Ok(processes));
        assert_eq!(complaints(&run(json!({"checks": ["processes"]}))), expected);
    }
}

#[test]
fn a_critical_finding_fails_the_step_with_its_reason() {
    let node = healthy();
    node.set_memory(Ok(memory(1))).set_system(Ok(SystemInformation { processors: 60, ..system() }));
    let input = json!({"thresholds": {"processors_minimum": 64}});
    let failure = Trial::new(super::step()).run(&input).unwrap_err();
    assert_eq!((failure.class, failure.code.as_str()), (FailureClass::Permanent, "check.failed"));
    assert!(
        failure.message.contains("2 things of the node not in order: system is critical: 60 processors"),
        "{failure}"
    );
    assert!(failure.message.contains("memory is critical: 1 % available"), "{failure}");
    assert_eq!(node.logs().len(), 2);
    assert_eq!(complaints(&run(input)), ["system critical inspect_hardware", "memory critical drain"]);
}

#[test]
fn input_that_does_not_fit_is_named() {
    let _node = healthy();
    for (input, part) in [
        (json!({"checks": ["disks"]}), "at `/checks/0`: unknown variant `disks`"),
        (json!({"checks": []}), "names no check"),
        (json!({"thresholds": {"memory": 1}}), "at `/thresholds/memory`: unknown field"),
        (json!({"fail_on": "always"}), "at `/fail_on`: unknown variant"),
    ] {
        let failure = Trial::new(super::step()).run(&input).unwrap_err();
        assert_eq!(failure.class, FailureClass::InvalidInput);
        assert!(failure.message.contains(part), "{failure}");
    }
}
