//! Blocked and defunct processes.

use fettle_step::{
    check::{Action, Finding, Severity},
    facts::Process,
};

use crate::input::Thresholds;

const CHECK: &str = "processes";

/// Whether processes pile up. Never critical: this is one look, and a process that reads a disk is in
/// state D for a moment too. That one was blocked for minutes is what the kernel log says.
pub(crate) fn judge(processes: &[Process], thresholds: &Thresholds) -> Vec<Finding> {
    if processes.is_empty() {
        return vec![Finding::unknown(CHECK, "the node names no process, not even the first")];
    }
    let age = thresholds.blocked_process_age_seconds;
    let blocked: Vec<&Process> =
        processes.iter().filter(|process| process.state == 'D' && process.age_seconds >= age).collect();
    let defunct: Vec<&Process> = processes.iter().filter(|process| process.state == 'Z').collect();
    let sleep = format!("in uninterruptible sleep, started at least {age} s ago");
    vec![
        pile("blocked", &sleep, &blocked, thresholds.blocked_processes_warning),
        pile("defunct", "defunct", &defunct, thresholds.defunct_processes_warning),
    ]
}

fn pile(name: &str, what: &str, processes: &[&Process], limit: u32) -> Finding {
    let rule = format!("{limit} processes {what} are a warning");
    let many = u32::try_from(processes.len()).unwrap_or(u32::MAX) >= limit;
    if !many {
        return Finding::ok(CHECK, format!("{} {name} processes", processes.len()), rule);
    }
    let shown: Vec<String> =
        processes.iter().take(5).map(|process| format!("{} ({})", process.name, process.pid)).collect();
    let observed = format!("{} {name} processes, among them {}", processes.len(), shown.join(", "));
    Finding::new(CHECK, Severity::Warning, observed, rule, Action::Investigate)
}
