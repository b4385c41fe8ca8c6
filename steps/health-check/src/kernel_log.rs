//! What the kernel complained about.

use fettle_step::{
    check::{Action, Finding, Severity},
    facts::KernelMessage,
};

use crate::input::Thresholds;

const CHECK: &str = "kernel_log";

/// A kind of message. Messages are told apart by how they begin, because what follows may hold names
/// that a user chose.
struct Class {
    name: &'static str,
    starts: &'static [&'static str],
    /// One of these comes after the start; any text when empty.
    holds: &'static [&'static str],
    severity: Severity,
    action: Action,
}

/// The first that fits counts.
const CLASSES: [Class; 12] = [
    Class {
        name: "a process was killed because memory ran out",
        starts: &["Out of memory:", "Memory cgroup out of memory:"],
        holds: &["Killed process", "Kill process"],
        severity: Severity::Warning,
        action: Action::Investigate,
    },
    Class {
        name: "a processor was locked up",
        starts: &["watchdog: BUG: soft lockup", "BUG: soft lockup", "NMI watchdog: BUG: soft lockup"],
        holds: &[],
        severity: Severity::Critical,
        action: Action::Reboot,
    },
    Class {
        name: "a processor was locked up with interrupts off",
        starts: &["watchdog: Watchdog detected hard LOCKUP", "NMI watchdog: Watchdog detected hard LOCKUP"],
        holds: &[],
        severity: Severity::Critical,
        action: Action::Reboot,
    },
    Class {
        name: "a processor stalled",
        starts: &["rcu: INFO: ", "INFO: rcu_"],
        holds: &["detected stall", "self-detected stall", "detected expedited stalls"],
        severity: Severity::Warning,
        action: Action::Investigate,
    },
    Class {
        name: "a task was blocked for minutes",
        starts: &["INFO: task "],
        holds: &[" blocked for more than "],
        severity: Severity::Warning,
        action: Action::Investigate,
    },
    Class {
        name: "a file system turned read-only after an error",
        starts: &["EXT4-fs", "EXT3-fs", "XFS", "BTRFS", "F2FS-fs"],
        holds: &[
            "emounting filesystem read-only",
            "hutting down filesystem",
            "ilesystem has been shut down",
            "forced readonly",
        ],
        severity: Severity::Critical,
        action: Action::InspectHardware,
    },
    Class {
        name: "an NVMe disk was lost",
        starts: &["nvme"],
        holds: &["Removing after probe failure", "Device not ready; aborting", "Disabling device after reset failure"],
        severity: Severity::Critical,
        action: Action::InspectHardware,
    },
    Class {
        name: "an NVMe disk did not answer in time",
        starts: &["nvme"],
        holds: &[
            "controller is down; will reset",
            "timeout, aborting",
            "timeout, completion polled",
            "timeout, reset controller",
            "timeout, disable controller",
        ],
        severity: Severity::Warning,
        action: Action::Investigate,
    },
    Class {
        name: "an NVMe disk could not read or write a block",
        starts: &["nvme", "I/O error, ", "critical medium error, ", "blk_update_request: "],
        holds: &["I/O Error (sct", "I/O error, dev nvme", "critical medium error, dev nvme"],
        severity: Severity::Warning,
        action: Action::Investigate,
    },
    Class {
        name: "the hardware corrected an error",
        starts: &["mce: [Hardware Error]: Machine check events logged", "[Hardware Error]: ", "EDAC MC"],
        holds: &["events logged", "Corrected error", "event severity: corrected", " CE "],
        severity: Severity::Warning,
        action: Action::Investigate,
    },
    Class {
        name: "the hardware has an error that it could not correct",
        starts: &["EDAC MC", "[Hardware Error]: ", "mce: Uncorrected hardware memory error", "Memory failure: "],
        holds: &[
            " UE ",
            "Uncorrected",
            "event severity: recoverable",
            "event severity: fatal",
            "hardware memory corruption",
            "recovery action",
        ],
        severity: Severity::Critical,
        action: Action::InspectHardware,
    },
    Class {
        name: "a processor raised a machine-check exception",
        starts: &["mce: [Hardware Error]: CPU", "mce: [Hardware Error]: Machine check: "],
        holds: &["Machine Check Exception", "Machine check: "],
        severity: Severity::Critical,
        action: Action::InspectHardware,
    },
];

impl Class {
    fn fits(&self, text: &str) -> bool {
        let text = without_source(text);
        self.starts.iter().any(|start| text.starts_with(start))
            && (self.holds.is_empty() || self.holds.iter().any(|part| text.contains(part)))
    }
}

/// Without the `{1}` that firmware-reported errors begin with.
fn without_source(text: &str) -> &str {
    match text.strip_prefix('{').and_then(|rest| rest.split_once('}')) {
        Some((number, rest)) if number.bytes().all(|byte| byte.is_ascii_digit()) => rest,
        _ => text,
    }
}

/// One finding for each class that appeared within the window. `uptime_seconds` is now; without it the
/// newest message is.
pub(crate) fn judge(messages: &[KernelMessage], uptime_seconds: Option<u64>, thresholds: &Thresholds) -> Vec<Finding> {
    let newest = messages.iter().map(|message| message.since_boot_us).max().unwrap_or_default();
    let now = uptime_seconds.map_or(newest, |seconds| seconds.saturating_mul(1_000_000).max(newest));
    let window = thresholds.kernel_log_window_seconds;
    let from = now.saturating_sub(window.saturating_mul(1_000_000));
    let mut matches: [Vec<&str>; CLASSES.len()] = Default::default();
    for message in messages.iter().filter(|message| message.since_boot_us >= from) {
        if let Some(found) = CLASSES.iter().zip(&mut matches).find(|(class, _)| class.fits(&message.text)) {
            found.1.push(&message.text);
        }
    }
    let findings: Vec<Finding> =
        CLASSES.iter().zip(&matches).filter_map(|(class, texts)| finding(class, texts, window)).collect();
    if findings.is_empty() {
        let rule = format!("no error of a known class within {window} s");
        return vec![Finding::ok(CHECK, format!("{} messages", messages.len()), rule)];
    }
    findings
}

fn finding(class: &Class, texts: &[&str], window: u64) -> Option<Finding> {
    let last: String = texts.last()?.chars().take(200).collect();
    let observed = format!("{} (seen {}); the last message: {last}", class.name, times(texts.len()));
    let name = if class.severity == Severity::Critical { "critical" } else { "a warning" };
    let rule = format!("such a message within {window} s is {name}");
    Some(Finding::new(CHECK, class.severity, observed, rule, class.action))
}

fn times(count: usize) -> String {
    if count == 1 { "once".to_owned() } else { format!("{count} times") }
}
