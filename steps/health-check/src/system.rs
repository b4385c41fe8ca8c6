//! Processors.

use fettle_step::{
    check::{Action, Finding, Severity},
    facts::SystemInformation,
};

use crate::input::Thresholds;

const CHECK: &str = "system";

/// Whether the node has its processors.
pub(crate) fn judge(system: &SystemInformation, thresholds: &Thresholds) -> Vec<Finding> {
    let observed = format!(
        "{} processors, kernel {}, {}, up for {} s",
        system.processors, system.kernel_release, system.architecture, system.uptime_seconds
    );
    let rule = format!("at least {} processors are online", thresholds.processors_minimum);
    let finding = if system.processors < thresholds.processors_minimum {
        Finding::new(CHECK, Severity::Critical, observed, rule, Action::InspectHardware)
    } else {
        Finding::ok(CHECK, observed, rule)
    };
    vec![finding]
}
