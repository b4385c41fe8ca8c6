//! What a scenario file says, and how a call is answered from it.

use std::{collections::BTreeMap, sync::OnceLock};

use nvml_wrapper_sys::bindings::{
    nvmlReturn_enum_NVML_ERROR_INVALID_ARGUMENT as INVALID_ARGUMENT,
    nvmlReturn_enum_NVML_ERROR_NOT_SUPPORTED as NOT_SUPPORTED, nvmlReturn_t,
};
use serde::Deserialize;

/// The call that `true` stands for.
const FIRST: &str = "nvmlInit_v2";

/// A driver and its GPUs.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Scenario {
    pub(crate) driver_version: Option<String>,
    pub(crate) nvml_version: Option<String>,
    /// 12080 is CUDA 12.8.
    pub(crate) cuda_driver_version: Option<i32>,
    pub(crate) devices: Vec<Device>,
    errors: BTreeMap<String, nvmlReturn_t>,
    hang: Option<Trouble>,
    crash: Option<Trouble>,
}

/// One GPU.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Device {
    pub(crate) uuid: Option<String>,
    pub(crate) name: Option<String>,
    pub(crate) pci_bus_id: Option<String>,
    pub(crate) vbios_version: Option<String>,
    /// Bytes.
    pub(crate) memory_total: Option<u64>,
    /// Bytes.
    pub(crate) memory_used: Option<u64>,
    pub(crate) ecc: Option<Mode>,
    pub(crate) volatile_corrected: Option<u64>,
    pub(crate) volatile_uncorrected: Option<u64>,
    pub(crate) aggregate_corrected: Option<u64>,
    pub(crate) aggregate_uncorrected: Option<u64>,
    pub(crate) remapped_rows: Option<RemappedRows>,
    /// Degrees Celsius, as the two limits.
    pub(crate) temperature: Option<u32>,
    pub(crate) slowdown: Option<u32>,
    pub(crate) shutdown: Option<u32>,
    pub(crate) throttle_reasons: Option<u64>,
    pub(crate) pcie_generation: Option<u32>,
    pub(crate) pcie_maximum_generation: Option<u32>,
    pub(crate) pcie_width: Option<u32>,
    pub(crate) pcie_maximum_width: Option<u32>,
    pub(crate) pcie_replay_counter: Option<u32>,
    pub(crate) persistence_mode: Option<bool>,
    pub(crate) mig: Option<Mode>,
    /// Milliwatts.
    pub(crate) power_usage: Option<u32>,
    errors: BTreeMap<String, nvmlReturn_t>,
}

/// A mode that only changes with a reset.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Mode {
    pub(crate) current: bool,
    pub(crate) pending: bool,
}

/// Memory rows that were replaced.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RemappedRows {
    pub(crate) correctable: u32,
    pub(crate) uncorrectable: u32,
    pub(crate) pending: bool,
    pub(crate) failure: bool,
}

/// Where something goes wrong: in the first call, or in the named one.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Trouble {
    First(bool),
    In(String),
}

impl Trouble {
    fn strikes(&self, call: &str) -> bool {
        match self {
            Self::First(yes) => *yes && call == FIRST,
            Self::In(name) => name == call,
        }
    }
}

/// What a call answers, or its error code.
pub(crate) type Answer<T> = Result<T, nvmlReturn_t>;

/// Answers a call about the driver.
pub(crate) fn answer<T>(call: &str, read: impl FnOnce(&Scenario) -> Option<T>) -> Answer<T> {
    let scenario = scenario();
    if scenario.hang.as_ref().is_some_and(|trouble| trouble.strikes(call)) {
        loop {
            std::thread::park();
        }
    }
    if scenario.crash.as_ref().is_some_and(|trouble| trouble.strikes(call)) {
        std::process::abort();
    }
    match scenario.errors.get(call) {
        Some(code) => Err(*code),
        None => read(scenario).ok_or(NOT_SUPPORTED),
    }
}

/// Answers a call about the device whose handle was given out for `index`.
pub(crate) fn answer_of<T>(call: &str, index: Option<usize>, read: impl FnOnce(&Device) -> Option<T>) -> Answer<T> {
    let device = |scenario: &'static Scenario| index.and_then(|index| scenario.devices.get(index));
    answer(call, |_| Some(()))?;
    let device = device(scenario()).ok_or(INVALID_ARGUMENT)?;
    match device.errors.get(call) {
        Some(code) => Err(*code),
        None => read(device).ok_or(NOT_SUPPORTED),
    }
}

/// The scenario; a process without a readable one is of no use, and says why.
fn scenario() -> &'static Scenario {
    static SCENARIO: OnceLock<Scenario> = OnceLock::new();
    SCENARIO.get_or_init(|| {
        load().unwrap_or_else(|error| {
            eprintln!("{error}");
            std::process::abort()
        })
    })
}

fn load() -> Result<Scenario, String> {
    let name = crate::VARIABLE;
    let path = std::env::var_os(name).ok_or_else(|| format!("{name} names no scenario file"))?;
    let text = std::fs::read_to_string(&path).map_err(|error| format!("{} cannot be read: {error}", path.display()))?;
    serde_json::from_str(&text).map_err(|error| format!("{} is no scenario: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_field_is_an_error() {
        let error = serde_json::from_str::<Scenario>(r#"{"devices": [{"temprature": 1}]}"#).unwrap_err();
        assert!(error.to_string().contains("temprature"), "{error}");
    }

    #[test]
    fn trouble_is_in_the_first_call_or_the_named_one() {
        let scenario: Scenario = serde_json::from_str(r#"{"hang": true, "crash": "nvmlShutdown"}"#).unwrap();
        let strikes = |trouble: &Option<Trouble>, call| trouble.as_ref().unwrap().strikes(call);
        assert!(strikes(&scenario.hang, "nvmlInit_v2") && !strikes(&scenario.hang, "nvmlShutdown"));
        assert!(strikes(&scenario.crash, "nvmlShutdown") && !strikes(&scenario.crash, "nvmlInit_v2"));
    }
}
