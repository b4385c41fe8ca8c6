//! Reading NVML, inside the child process.

use std::{ffi::OsStr, io::Write as _, path::Path};

use nvml_wrapper::{
    Nvml,
    enum_wrappers::device::{EccCounter, MemoryError, TemperatureSensor, TemperatureThreshold},
    error::{NvmlError, nvml_sym, nvml_try},
    structs::device::EccModeState,
};
use serde::{Deserialize, Serialize};

/// Most devices of a snapshot.
const DEVICES: u32 = 64;

/// What the WIT's `snapshot` holds, as it travels from the child.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    /// Of the kernel driver.
    pub driver_version: String,
    /// Of the library.
    pub nvml_version: String,
    /// The newest CUDA the driver serves.
    pub cuda_version: (u32, u32),
    /// In NVML's order.
    pub devices: Vec<Device>,
}

/// One GPU. What could not be read is none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "named and documented in wit/deps/gpu/gpu.wit")]
pub struct Device {
    pub index: u32,
    pub uuid: String,
    pub name: String,
    pub pci_bus_id: String,
    pub vbios_version: Option<String>,
    pub memory_total: Option<u64>,
    pub memory_used: Option<u64>,
    pub ecc: Option<Ecc>,
    pub remapped_rows: Option<RemappedRows>,
    pub temperature: Option<Temperature>,
    pub throttle_reasons: Option<u64>,
    pub pcie: Pcie,
    pub persistence_mode: Option<bool>,
    pub mig_enabled: Option<bool>,
    pub power_usage: Option<u32>,
    pub unreadable: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "named and documented in wit/deps/gpu/gpu.wit")]
pub struct Ecc {
    pub enabled: bool,
    pub pending_enabled: bool,
    pub volatile_corrected: Option<u64>,
    pub volatile_uncorrected: Option<u64>,
    pub aggregate_corrected: Option<u64>,
    pub aggregate_uncorrected: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "named and documented in wit/deps/gpu/gpu.wit")]
pub struct RemappedRows {
    pub correctable: u32,
    pub uncorrectable: u32,
    pub pending: bool,
    pub failure: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "named and documented in wit/deps/gpu/gpu.wit")]
pub struct Temperature {
    pub current: u32,
    pub slowdown: Option<u32>,
    pub shutdown: Option<u32>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "named and documented in wit/deps/gpu/gpu.wit")]
pub struct Pcie {
    pub generation: Option<u32>,
    pub maximum_generation: Option<u32>,
    pub width: Option<u32>,
    pub maximum_width: Option<u32>,
    pub replay_counter: Option<u32>,
}

/// Why there is no snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub enum Error {
    /// The node has no NVIDIA driver.
    #[error("{0}")]
    NotApplicable(String),
    /// The driver is there and does not answer as it should.
    #[error("{0}")]
    Unresponsive(String),
}

/// The hidden command: writes one JSON document to standard output.
///
/// # Errors
/// When standard output cannot be written.
pub fn print_snapshot(library: Option<&Path>) -> std::io::Result<()> {
    let answer = read(library.map(Path::as_os_str));
    let mut output = std::io::stdout().lock();
    serde_json::to_writer(&mut output, &answer)?;
    output.flush()
}

/// Reads what [`print_snapshot`] wrote.
pub(super) fn decode(bytes: &[u8]) -> Option<Result<Snapshot, Error>> {
    serde_json::from_slice(bytes).ok()
}

fn read(library: Option<&OsStr>) -> Result<Snapshot, Error> {
    let nvml = initialise(library)?;
    let unresponsive = |what: &str| {
        let what = what.to_owned();
        move |error: NvmlError| Error::Unresponsive(format!("the driver does not tell {what}: {error}"))
    };
    let cuda = nvml.sys_cuda_driver_version().map_err(unresponsive("its CUDA version"))?;
    let version = |part: i32| u32::try_from(part).unwrap_or_default();
    let count = nvml.device_count().map_err(unresponsive("how many devices there are"))?;
    let devices = (0..count.min(DEVICES))
        .map(|index| device(&nvml, index).map_err(unresponsive(&format!("about device {index}"))));
    Ok(Snapshot {
        driver_version: nvml.sys_driver_version().map_err(unresponsive("its version"))?,
        nvml_version: nvml.sys_nvml_version().map_err(unresponsive("the version of NVML"))?,
        cuda_version: (
            version(nvml_wrapper::cuda_driver_version_major(cuda)),
            version(nvml_wrapper::cuda_driver_version_minor(cuda)),
        ),
        devices: devices.collect::<Result<_, _>>()?,
    })
}

fn initialise(library: Option<&OsStr>) -> Result<Nvml, Error> {
    // Without a path the loader looks for the name that the driver installs, not the development link.
    let library = library.unwrap_or_else(|| OsStr::new("libnvidia-ml.so.1"));
    Nvml::builder().lib_path(library).init().map_err(|error| match error {
        NvmlError::LibloadingError(_) | NvmlError::LibraryNotFound => {
            Error::NotApplicable("no NVIDIA driver".to_owned())
        }
        NvmlError::DriverNotLoaded => Error::NotApplicable(
            "no NVIDIA driver: its library is installed and its kernel module is not loaded".to_owned(),
        ),
        other => Error::Unresponsive(format!("the NVIDIA driver cannot be initialised: {other}")),
    })
}

fn device(nvml: &Nvml, index: u32) -> Result<Device, NvmlError> {
    let device = nvml.device_by_index(index)?;
    let mut unreadable = Unreadable::default();
    let memory = unreadable.note("memory-total", device.memory_info());
    let temperature = unreadable.note("temperature", device.temperature(TemperatureSensor::Gpu));
    Ok(Device {
        index,
        uuid: device.uuid()?,
        name: device.name()?,
        pci_bus_id: device.pci_info()?.bus_id,
        vbios_version: unreadable.note("vbios-version", device.vbios_version()),
        memory_total: memory.as_ref().map(|memory| memory.total),
        memory_used: memory.as_ref().map(|memory| memory.used),
        ecc: unreadable.note("ecc", device.is_ecc_enabled()).map(|mode| ecc(&device, &mode)),
        remapped_rows: unreadable.note("remapped-rows", remapped_rows(nvml, &device)),
        temperature: temperature.map(|current| Temperature {
            current,
            slowdown: device.temperature_threshold(TemperatureThreshold::Slowdown).ok(),
            shutdown: device.temperature_threshold(TemperatureThreshold::Shutdown).ok(),
        }),
        throttle_reasons: unreadable
            .note("throttle-reasons", device.current_throttle_reasons())
            .map(|reasons| reasons.bits()),
        pcie: Pcie {
            generation: device.current_pcie_link_gen().ok(),
            maximum_generation: device.max_pcie_link_gen().ok(),
            width: device.current_pcie_link_width().ok(),
            maximum_width: device.max_pcie_link_width().ok(),
            replay_counter: device.pcie_replay_counter().ok(),
        },
        persistence_mode: unreadable.note("persistence-mode", device.is_in_persistent_mode()),
        mig_enabled: unreadable.note("mig-enabled", device.mig_mode()).map(|mode| mode.current == 1),
        power_usage: unreadable.note("power-usage", device.power_usage()),
        unreadable: unreadable.0,
    })
}

/// Which fields the driver failed to tell: a GPU that does not have them is another thing.
#[derive(Default)]
struct Unreadable(Vec<String>);

impl Unreadable {
    fn note<T>(&mut self, field: &str, told: Result<T, NvmlError>) -> Option<T> {
        match told {
            Ok(value) => Some(value),
            Err(NvmlError::NotSupported | NvmlError::FunctionNotFound | NvmlError::FailedToLoadSymbol(_)) => None,
            Err(_) => {
                self.0.push(field.to_owned());
                None
            }
        }
    }
}

fn ecc(device: &nvml_wrapper::Device<'_>, mode: &EccModeState) -> Ecc {
    let count = |error, counter| device.total_ecc_errors(error, counter).ok();
    Ecc {
        enabled: mode.currently_enabled,
        pending_enabled: mode.pending_enabled,
        volatile_corrected: count(MemoryError::Corrected, EccCounter::Volatile),
        volatile_uncorrected: count(MemoryError::Uncorrected, EccCounter::Volatile),
        aggregate_corrected: count(MemoryError::Corrected, EccCounter::Aggregate),
        aggregate_uncorrected: count(MemoryError::Uncorrected, EccCounter::Aggregate),
    }
}

#[expect(
    unsafe_code,
    reason = "the wrapper has no call for remapped rows; the library's own is called as NVML documents it"
)]
fn remapped_rows(nvml: &Nvml, device: &nvml_wrapper::Device<'_>) -> Result<RemappedRows, NvmlError> {
    let call = nvml_sym(nvml.lib().nvmlDeviceGetRemappedRows.as_ref())?;
    let (mut correctable, mut uncorrectable, mut pending, mut failure) = (0, 0, 0, 0);
    // SAFETY: the handle belongs to `device`, which outlives the call; the four pointers are to live integers.
    let status = unsafe {
        call(device.handle(), &raw mut correctable, &raw mut uncorrectable, &raw mut pending, &raw mut failure)
    };
    nvml_try(status)?;
    Ok(RemappedRows { correctable, uncorrectable, pending: pending != 0, failure: failure != 0 })
}
