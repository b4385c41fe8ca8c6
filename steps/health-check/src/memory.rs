//! Memory and swap.

use fettle_step::{
    check::{Action, Finding, Severity},
    facts::MemoryUsage,
};

use crate::{input::Thresholds, percent};

const CHECK: &str = "memory";

/// Whether enough memory is left.
pub(crate) fn judge(memory: &MemoryUsage, thresholds: &Thresholds) -> Vec<Finding> {
    let mut findings = vec![available(memory, thresholds)];
    findings.extend(swap(memory, thresholds));
    findings
}

fn available(memory: &MemoryUsage, thresholds: &Thresholds) -> Finding {
    let Some(percent) = percent::of(memory.available, memory.total) else {
        return Finding::unknown(CHECK, "the node says that it has no memory at all");
    };
    let (warning, critical) =
        (thresholds.memory_available_warning_percent, thresholds.memory_available_critical_percent);
    let observed = format!("{percent} % available ({} of {} bytes)", memory.available, memory.total);
    if percent < critical {
        let rule = format!("less than {critical} % available is critical");
        return Finding::new(CHECK, Severity::Critical, observed, rule, Action::Drain);
    }
    let rule = format!("less than {warning} % available is a warning");
    if percent < warning {
        return Finding::new(CHECK, Severity::Warning, observed, rule, Action::Investigate);
    }
    Finding::ok(CHECK, observed, rule)
}

/// None where there is no swap: many GPU nodes have none on purpose.
fn swap(memory: &MemoryUsage, thresholds: &Thresholds) -> Option<Finding> {
    let used = memory.swap_total.saturating_sub(memory.swap_free);
    let percent = percent::of(used, memory.swap_total)?;
    let limit = thresholds.swap_used_warning_percent;
    let observed = format!("{percent} % of swap used ({used} of {} bytes)", memory.swap_total);
    let rule = format!("more than {limit} % of swap used is a warning");
    Some(if percent > limit {
        Finding::new(CHECK, Severity::Warning, observed, rule, Action::Investigate)
    } else {
        Finding::ok(CHECK, observed, rule)
    })
}
