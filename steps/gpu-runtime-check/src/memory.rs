//! Memory errors and replaced rows.

use fettle_step::{
    check::{Action, Finding, Severity},
    gpu::{Device, Ecc},
};

use crate::name;

const ECC: &str = "gpu.ecc";
const REMAPPED_ROWS: &str = "gpu.remapped_rows";

/// Errors since the driver was loaded. Those since the board was made say nothing about now, and are
/// not judged.
pub(crate) fn ecc(device: &Device, required: bool) -> Vec<Finding> {
    let gpu = name(device);
    let Some(ecc) = &device.ecc else {
        return if is_unreadable(device, "ecc") {
            vec![Finding::unknown(ECC, format!("the driver failed to say whether {gpu} corrects errors"))]
        } else if required {
            vec![Finding::unknown(
                ECC,
                format!("{gpu} does not say whether it corrects errors, and `ecc_required` is set"),
            )]
        } else {
            vec![Finding::ok(ECC, format!("{gpu} has no error correction"), "it is only judged where it is")]
        };
    };
    let mut findings = vec![errors(&gpu, ecc, required)];
    if ecc.enabled != ecc.pending_enabled {
        let observed = format!("{gpu} turns error correction {} at the next reboot", on(ecc.pending_enabled));
        findings.push(Finding::new(
            ECC,
            Severity::Warning,
            observed,
            "the pending mode is the current one",
            Action::Reboot,
        ));
    }
    findings
}

fn errors(gpu: &str, ecc: &Ecc, required: bool) -> Finding {
    if !ecc.enabled {
        let observed = format!("{gpu} has error correction off");
        let rule = "`ecc_required` decides whether it must be on";
        return if required {
            Finding::new(ECC, Severity::Critical, observed, rule, Action::Reboot)
        } else {
            Finding::ok(ECC, observed, rule)
        };
    }
    match ecc.volatile_uncorrected {
        None => Finding::unknown(ECC, format!("{gpu} does not say how many errors it could not correct")),
        Some(0) => Finding::ok(
            ECC,
            format!("{gpu} has no error that it could not correct"),
            "none since the driver was loaded",
        ),
        Some(count) => {
            let observed = format!("{gpu} has {count} memory errors that it could not correct");
            Finding::new(
                ECC,
                Severity::Critical,
                observed,
                "any since the driver was loaded is critical",
                Action::ResetGpu,
            )
        }
    }
}

const fn on(enabled: bool) -> &'static str {
    if enabled { "on" } else { "off" }
}

/// Whether the GPU has this field and the driver failed to tell it.
fn is_unreadable(device: &Device, field: &str) -> bool {
    device.unreadable.iter().any(|unreadable| unreadable == field)
}

/// None for a GPU that has no rows to spare: older ones retire pages instead.
pub(crate) fn remapped_rows(device: &Device) -> Option<Finding> {
    let gpu = name(device);
    let Some(rows) = &device.remapped_rows else {
        return is_unreadable(device, "remapped-rows").then(|| {
            Finding::unknown(REMAPPED_ROWS, format!("the driver failed to say how many rows {gpu} has replaced"))
        });
    };
    let counted = format!(
        "{} rows replaced after errors it could correct, {} after others",
        rows.correctable, rows.uncorrectable
    );
    Some(if rows.failure {
        let observed = format!("{gpu} could not replace a broken memory row ({counted})");
        Finding::new(
            REMAPPED_ROWS,
            Severity::Critical,
            observed,
            "a row that cannot be replaced is critical",
            Action::InspectHardware,
        )
    } else if rows.pending {
        let observed = format!("{gpu} waits for a reset to replace a broken memory row ({counted})");
        Finding::new(REMAPPED_ROWS, Severity::Warning, observed, "a pending replacement is a warning", Action::ResetGpu)
    } else {
        Finding::ok(REMAPPED_ROWS, format!("{gpu} has {counted}"), "none is pending and none failed")
    })
}
