//! Errors that the driver wrote to the kernel log.

use std::collections::BTreeMap;

use fettle_step::{
    check::{Action, Finding, Severity},
    facts::KernelMessage,
};

use crate::input::{Thresholds, Xids};

const CHECK: &str = "gpu.xid";

/// One finding for each XID on each GPU within the window, which ends at the newest message.
pub(crate) fn judge(messages: &[KernelMessage], xids: &Xids, thresholds: &Thresholds) -> Vec<Finding> {
    let window = thresholds.xid_window_seconds;
    let newest = messages.iter().map(|message| message.since_boot_us).max().unwrap_or_default();
    let from = newest.saturating_sub(window.saturating_mul(1_000_000));
    let mut seen: BTreeMap<(u32, &str), (usize, &str)> = BTreeMap::new();
    for message in messages.iter().filter(|message| message.since_boot_us >= from) {
        if let Some((device, number)) = parse(&message.text).filter(|(_, number)| !xids.ignore.contains(number)) {
            let (count, last) = seen.entry((number, device)).or_default();
            *count += 1;
            *last = &message.text;
        }
    }
    if seen.is_empty() {
        return vec![Finding::ok(CHECK, "no XID in the kernel log", format!("none within {window} s"))];
    }
    seen.into_iter().map(|((number, device), (count, last))| finding(number, device, count, last, xids)).collect()
}

fn finding(number: u32, device: &str, count: usize, last: &str, xids: &Xids) -> Finding {
    let last: String = last.chars().take(200).collect();
    let times = if count == 1 { "once".to_owned() } else { format!("{count} times") };
    let observed = format!("XID {number} on {device} (seen {times}); the last message: {last}");
    let (severity, action, rule) = classify(number, xids);
    Finding::new(CHECK, severity, observed, rule, action)
}

/// The worst list that names the XID counts.
fn classify(number: u32, xids: &Xids) -> (Severity, Action, &'static str) {
    if xids.reboot.contains(&number) {
        return (Severity::Critical, Action::Reboot, "this XID is gone only after a reboot");
    }
    if xids.reset.contains(&number) {
        return (Severity::Critical, Action::ResetGpu, "this XID asks for a reset of the GPU");
    }
    if xids.follow_up.contains(&number) {
        return (Severity::Warning, Action::Investigate, "what this XID means depends on what else happened");
    }
    if xids.warning.contains(&number) {
        return (Severity::Warning, Action::Investigate, "this XID is mostly a fault of a program");
    }
    (Severity::Warning, Action::Investigate, "this XID is in no list, and such a one is a warning")
}

/// The GPU and the number of `NVRM: Xid (PCI:0000:3b:00): 79, pid=..`. Only at the start of a message:
/// what follows may hold a name that a user chose.
fn parse(text: &str) -> Option<(&str, u32)> {
    let (device, rest) = text.strip_prefix("NVRM: Xid (")?.split_once("): ")?;
    let digits = rest.split(|character: char| !character.is_ascii_digit()).next()?;
    Some((device, digits.parse().ok()?))
}
