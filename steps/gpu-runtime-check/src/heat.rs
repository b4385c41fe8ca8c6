//! Temperature and clocks that are held down.

use fettle_step::{
    check::{Action, Finding, Severity},
    gpu::Device,
};

use crate::{input::Thresholds, name};

const TEMPERATURE: &str = "gpu.temperature";
const THROTTLE: &str = "gpu.throttle";

/// NVML's names for the clocks-event reasons.
const REASONS: [(u64, &str); 9] = [
    (0x1, "idle"),
    (0x2, "application clocks"),
    (0x4, "software power cap"),
    (0x8, "hardware slowdown"),
    (0x10, "sync boost"),
    (0x20, "software thermal slowdown"),
    (0x40, "hardware thermal slowdown"),
    (0x80, "hardware power brake"),
    (0x100, "display clocks"),
];

/// Against the GPU's own slowdown limit, and fixed degrees where it tells none.
pub(crate) fn temperature(device: &Device, thresholds: &Thresholds) -> Finding {
    let gpu = name(device);
    let Some(temperature) = &device.temperature else {
        return Finding::unknown(TEMPERATURE, format!("{gpu} does not tell its temperature"));
    };
    let (warning, critical, source) = match temperature.slowdown {
        Some(limit) => (limit.saturating_sub(thresholds.temperature_margin_celsius), limit, "its own slowdown limit"),
        None => (
            thresholds.temperature_warning_celsius,
            thresholds.temperature_critical_celsius,
            "it tells no limit of its own",
        ),
    };
    let observed = format!("{gpu} is at {} °C", temperature.current);
    let rule = format!("a warning from {warning} °C, critical from {critical} °C ({source})");
    if temperature.current >= critical {
        return Finding::new(TEMPERATURE, Severity::Critical, observed, rule, Action::Drain);
    }
    if temperature.current >= warning {
        return Finding::new(TEMPERATURE, Severity::Warning, observed, rule, Action::Investigate);
    }
    Finding::ok(TEMPERATURE, observed, rule)
}

/// By the bits of the mask: other reasons may be set beside them, and mean nothing.
pub(crate) fn throttle(device: &Device, thresholds: &Thresholds) -> Finding {
    let gpu = name(device);
    let Some(reasons) = device.throttle_reasons else {
        return Finding::unknown(THROTTLE, format!("{gpu} does not say what holds its clocks down"));
    };
    let mask = thresholds.throttle_mask;
    let observed = format!("{gpu} has its clocks held down by {} ({reasons:#x})", list(reasons));
    let rule = format!("a reason within the mask {mask:#x} is critical");
    if reasons & mask != 0 {
        return Finding::new(THROTTLE, Severity::Critical, observed, rule, Action::InspectHardware);
    }
    Finding::ok(THROTTLE, observed, rule)
}

fn list(reasons: u64) -> String {
    let names: Vec<&str> = REASONS.iter().filter(|(bit, _)| reasons & bit != 0).map(|(_, name)| *name).collect();
    match (names.is_empty(), reasons) {
        (false, _) => names.join(", "),
        (true, 0) => "nothing".to_owned(),
        (true, _) => "something unnamed".to_owned(),
    }
}
