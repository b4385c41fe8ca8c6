//! The link to the processor.

use fettle_step::{
    check::{Action, Finding, Severity},
    gpu::Device,
};

use crate::name;

const CHECK: &str = "gpu.pcie";

/// Width, and what generation the link is capable of.
pub(crate) fn judge(device: &Device, generation_minimum: Option<u32>) -> Vec<Finding> {
    let mut findings = vec![width(device)];
    findings.extend(generation_minimum.map(|minimum| generation(device, minimum)));
    findings
}

fn width(device: &Device) -> Finding {
    let gpu = name(device);
    let (Some(width), Some(maximum)) = (device.pcie.width, device.pcie.maximum_width) else {
        return Finding::unknown(CHECK, format!("{gpu} does not tell the width of its PCIe link"));
    };
    let observed = format!("{gpu} has {width} of {maximum} PCIe lanes");
    let rule = "the link is as wide as GPU and slot allow";
    if width < maximum {
        return Finding::new(CHECK, Severity::Critical, observed, rule, Action::InspectHardware);
    }
    Finding::ok(CHECK, observed, rule)
}

/// The current generation falls while a GPU is idle, to save power, so it is told and not judged; what
/// the link is capable of does not fall.
fn generation(device: &Device, minimum: u32) -> Finding {
    let gpu = name(device);
    let Some(maximum) = device.pcie.maximum_generation else {
        return Finding::unknown(CHECK, format!("{gpu} does not tell the generation of its PCIe link"));
    };
    let now = device.pcie.generation.map_or_else(|| "unknown".to_owned(), |generation| generation.to_string());
    let observed = format!("{gpu} is capable of PCIe generation {maximum} and now at {now}");
    let rule =
        format!("GPU and slot are capable of generation {minimum}; the current one falls when idle and is not judged");
    if maximum < minimum {
        return Finding::new(CHECK, Severity::Warning, observed, rule, Action::Investigate);
    }
    Finding::ok(CHECK, observed, rule)
}
