//! What is checked, and against which thresholds.

use std::collections::BTreeSet;

use fettle_step::check::{FailOn, Finding, Severity};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::version::Version;

/// What is checked, and against which thresholds.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Input {
    /// The checks; all of them when left out. `xid` needs the fact `kernel-log` in the grant, the
    /// others need `gpu`.
    #[serde(default = "every_check")]
    #[schemars(length(min = 1))]
    pub(crate) checks: Vec<Check>,
    /// Whether a node without an NVIDIA driver fails. Else the verdict there is `not_applicable`.
    #[serde(default)]
    pub(crate) required: bool,
    /// How many GPUs there must be.
    pub(crate) expected_devices: Option<u32>,
    /// The oldest driver that will do: `580` or `580.65.06`.
    pub(crate) driver_minimum: Option<Version>,
    /// The CUDA that programs were built with: `12` or `12.4`.
    pub(crate) cuda: Option<Version>,
    /// The PCIe generation that GPU and slot must both be capable of.
    pub(crate) pcie_generation_minimum: Option<u32>,
    /// Whether error correction must be on.
    #[serde(default)]
    pub(crate) ecc_required: bool,
    /// Thresholds that differ from the defaults.
    #[serde(default)]
    pub(crate) thresholds: Thresholds,
    /// Which driver errors (XIDs) mean what, where that differs from the defaults.
    #[serde(default)]
    pub(crate) xids: Xids,
    /// When the step fails instead of answering its findings. Never: it always answers them.
    #[serde(default)]
    pub(crate) fail_on: FailOn,
}

/// One check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Check {
    /// How many GPUs there are.
    Inventory,
    /// Driver and CUDA versions.
    Driver,
    /// Memory errors that could not be corrected.
    Ecc,
    /// Memory rows that were replaced.
    RemappedRows,
    /// Heat.
    Temperature,
    /// Clocks held down by heat or power.
    Throttle,
    /// The link to the processor.
    Pcie,
    /// Errors of the driver in the kernel log.
    Xid,
}

fn every_check() -> Vec<Check> {
    use Check::{Driver, Ecc, Inventory, Pcie, RemappedRows, Temperature, Throttle, Xid};
    vec![Inventory, Driver, Ecc, RemappedRows, Temperature, Throttle, Pcie, Xid]
}

/// When something is too much.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Thresholds {
    /// Clocks-event reasons that are critical when any of their bits is set. Default 0xE8: hardware
    /// slowdown, software and hardware thermal slowdown, power brake; not the software power cap.
    pub(crate) throttle_mask: u64,
    /// So close to the GPU's own slowdown limit is a warning, in degrees Celsius.
    pub(crate) temperature_margin_celsius: u32,
    /// A warning from here, for a GPU that tells no limit of its own.
    pub(crate) temperature_warning_celsius: u32,
    /// Critical from here, for a GPU that tells no limit of its own.
    pub(crate) temperature_critical_celsius: u32,
    /// Only driver errors of this many seconds before the newest kernel message count.
    pub(crate) xid_window_seconds: u64,
}

impl Default for Thresholds {
    fn default() -> Self {
        Self {
            throttle_mask: 0xE8,
            temperature_margin_celsius: 3,
            temperature_warning_celsius: 83,
            temperature_critical_celsius: 90,
            xid_window_seconds: 86_400,
        }
    }
}

/// XIDs by what they ask for. One that is in no list is a warning.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Xids {
    /// Critical: only a reboot helps.
    pub(crate) reboot: BTreeSet<u32>,
    /// Critical: a reset of the GPU helps.
    pub(crate) reset: BTreeSet<u32>,
    /// A warning: what they mean depends on what else happened.
    pub(crate) follow_up: BTreeSet<u32>,
    /// A warning: mostly faults of programs.
    pub(crate) warning: BTreeSet<u32>,
    /// Not looked at.
    pub(crate) ignore: BTreeSet<u32>,
}

impl Default for Xids {
    fn default() -> Self {
        Self {
            reboot: [79].into(),
            reset: [46, 62, 64, 95, 109, 110, 119, 120, 136, 140, 143, 155, 156, 158].into(),
            follow_up: [45, 48, 74, 144, 145, 146, 147, 148, 149, 150, 154].into(),
            warning: [13, 31, 43, 63, 66, 94].into(),
            ignore: BTreeSet::new(),
        }
    }
}

/// What was found.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Output {
    /// The worst severity of the findings, or that there is nothing to check.
    pub(crate) verdict: Verdict,
    /// Why there is nothing to check.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<String>,
    /// The driver's version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) driver_version: Option<String>,
    /// The newest CUDA that the driver serves.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cuda_version: Option<String>,
    /// The GPUs, in the driver's order.
    pub(crate) devices: Vec<Device>,
    /// In the order of the checks, and within a check of the GPUs.
    pub(crate) findings: Vec<Finding>,
}

/// A GPU.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Device {
    pub(crate) index: u32,
    pub(crate) uuid: String,
    pub(crate) name: String,
    pub(crate) pci_bus_id: String,
    /// Bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) memory_total: Option<u64>,
}

/// The worst severity, or that there is nothing to check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Verdict {
    /// The node has no NVIDIA driver.
    NotApplicable,
    /// All is well.
    Ok,
    /// Works, and wants a look.
    Warning,
    /// Something could not be read.
    Unknown,
    /// Do not use it as it is.
    Critical,
}

impl From<Severity> for Verdict {
    fn from(severity: Severity) -> Self {
        match severity {
            Severity::Ok => Self::Ok,
            Severity::Warning => Self::Warning,
            Severity::Unknown => Self::Unknown,
            Severity::Critical => Self::Critical,
        }
    }
}
