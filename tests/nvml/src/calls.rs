//! NVML's C functions, as `nvml.h` declares them.
#![expect(
    unsafe_code,
    reason = "C symbols that a program loads: they get pointers, and write through those that are not null"
)]

use std::ffi::{c_char, c_int, c_uint, c_ulonglong};

use nvml_wrapper_sys::bindings::{
    nvmlDevice_t, nvmlEccCounterType_t, nvmlEnableState_t, nvmlMemory_v2_t, nvmlMemoryErrorType_t, nvmlPciInfo_t,
    nvmlReturn_enum_NVML_ERROR_INSUFFICIENT_SIZE as INSUFFICIENT_SIZE,
    nvmlReturn_enum_NVML_ERROR_INVALID_ARGUMENT as INVALID_ARGUMENT, nvmlReturn_enum_NVML_SUCCESS as SUCCESS,
    nvmlReturn_t, nvmlTemperatureSensors_t, nvmlTemperatureThresholds_t,
};

use crate::scenario::{Answer, Device, answer, answer_of};

/// Writes an answer where the caller wants it.
///
/// # Safety
/// `place` is null or points to a live `T`.
unsafe fn put<T>(place: *mut T, answer: Answer<T>) -> nvmlReturn_t {
    match answer {
        Err(code) => code,
        Ok(_) if place.is_null() => INVALID_ARGUMENT,
        Ok(value) => {
            // SAFETY: not null, and the caller says that it is live.
            unsafe { place.write(value) };
            SUCCESS
        }
    }
}

/// Writes a text and the zero that ends it.
///
/// # Safety
/// `place` is null or points to `length` live bytes.
unsafe fn put_text(place: *mut c_char, length: c_uint, answer: Answer<String>) -> nvmlReturn_t {
    let text = match answer {
        Err(code) => return code,
        Ok(text) => text,
    };
    if place.is_null() {
        return INVALID_ARGUMENT;
    }
    if usize::try_from(length).is_ok_and(|length| text.len() < length) {
        // SAFETY: the text and its zero fit into the `length` bytes that the caller says are live.
        unsafe {
            std::ptr::copy_nonoverlapping(text.as_ptr().cast(), place, text.len());
            place.add(text.len()).write(0);
        }
        return SUCCESS;
    }
    INSUFFICIENT_SIZE
}

/// Handles are no addresses: the index, and one, for null is none.
fn handle(index: usize) -> nvmlDevice_t {
    std::ptr::without_provenance_mut(index + 1)
}

fn index(device: nvmlDevice_t) -> Option<usize> {
    device.addr().checked_sub(1)
}

/// Calls that tell one value of a device.
macro_rules! values {
    ($($symbol:ident: $type:ty = $read:expr;)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $symbol(device: nvmlDevice_t, place: *mut $type) -> nvmlReturn_t {
            let read: fn(&Device) -> Option<$type> = $read;
            // SAFETY: `nvml.h` asks the caller for a live value.
            unsafe { put(place, answer_of(stringify!($symbol), index(device), read)) }
        }
    )*};
}

values! {
    nvmlDeviceGetCurrentClocksThrottleReasons: c_ulonglong = |device| device.throttle_reasons;
    nvmlDeviceGetCurrPcieLinkGeneration: c_uint = |device| device.pcie_generation;
    nvmlDeviceGetMaxPcieLinkGeneration: c_uint = |device| device.pcie_maximum_generation;
    nvmlDeviceGetCurrPcieLinkWidth: c_uint = |device| device.pcie_width;
    nvmlDeviceGetMaxPcieLinkWidth: c_uint = |device| device.pcie_maximum_width;
    nvmlDeviceGetPcieReplayCounter: c_uint = |device| device.pcie_replay_counter;
    nvmlDeviceGetPersistenceMode: nvmlEnableState_t = |device| device.persistence_mode.map(nvmlEnableState_t::from);
    nvmlDeviceGetPowerUsage: c_uint = |device| device.power_usage;
    nvmlDeviceGetPciInfo_v3: nvmlPciInfo_t = pci_info;
    nvmlDeviceGetMemoryInfo_v2: nvmlMemory_v2_t = memory_info;
}

/// Calls that tell one text of a device.
macro_rules! texts {
    ($($symbol:ident = $field:ident;)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $symbol(device: nvmlDevice_t, place: *mut c_char, length: c_uint) -> nvmlReturn_t {
            let text = answer_of(stringify!($symbol), index(device), |device| device.$field.clone());
            // SAFETY: `nvml.h` asks the caller for so many live bytes.
            unsafe { put_text(place, length, text) }
        }
    )*};
}

texts! {
    nvmlDeviceGetUUID = uuid;
    nvmlDeviceGetName = name;
    nvmlDeviceGetVbiosVersion = vbios_version;
}

fn pci_info(device: &Device) -> Option<nvmlPciInfo_t> {
    let id = device.pci_bus_id.as_ref()?;
    let mut bus_id = [0; 32];
    // The last byte stays zero: it ends the text.
    for (place, byte) in bus_id.iter_mut().take(31).zip(id.bytes()) {
        *place = c_char::from_ne_bytes([byte]);
    }
    Some(nvmlPciInfo_t {
        busIdLegacy: [0; 16],
        domain: 0,
        bus: 0,
        device: 0,
        pciDeviceId: 0,
        pciSubSystemId: 0,
        busId: bus_id,
    })
}

fn memory_info(device: &Device) -> Option<nvmlMemory_v2_t> {
    let total = device.memory_total?;
    let used = device.memory_used.unwrap_or_default();
    Some(nvmlMemory_v2_t { version: 2, total, reserved: 0, free: total.saturating_sub(used), used })
}

#[unsafe(no_mangle)]
extern "C" fn nvmlInit_v2() -> nvmlReturn_t {
    answer("nvmlInit_v2", |_| Some(())).err().unwrap_or(SUCCESS)
}

#[unsafe(no_mangle)]
extern "C" fn nvmlInitWithFlags(_flags: c_uint) -> nvmlReturn_t {
    nvmlInit_v2()
}

#[unsafe(no_mangle)]
extern "C" fn nvmlShutdown() -> nvmlReturn_t {
    answer("nvmlShutdown", |_| Some(())).err().unwrap_or(SUCCESS)
}

#[unsafe(no_mangle)]
extern "C" fn nvmlErrorString(_code: nvmlReturn_t) -> *const c_char {
    c"an error of the scenario".as_ptr()
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlSystemGetDriverVersion(place: *mut c_char, length: c_uint) -> nvmlReturn_t {
    let version = answer("nvmlSystemGetDriverVersion", |scenario| scenario.driver_version.clone());
    // SAFETY: `nvml.h` asks the caller for so many live bytes.
    unsafe { put_text(place, length, version) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlSystemGetNVMLVersion(place: *mut c_char, length: c_uint) -> nvmlReturn_t {
    let version = answer("nvmlSystemGetNVMLVersion", |scenario| scenario.nvml_version.clone());
    // SAFETY: `nvml.h` asks the caller for so many live bytes.
    unsafe { put_text(place, length, version) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlSystemGetCudaDriverVersion_v2(place: *mut c_int) -> nvmlReturn_t {
    let version = answer("nvmlSystemGetCudaDriverVersion_v2", |scenario| scenario.cuda_driver_version);
    // SAFETY: `nvml.h` asks the caller for a live integer.
    unsafe { put(place, version) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetCount_v2(place: *mut c_uint) -> nvmlReturn_t {
    let count = answer("nvmlDeviceGetCount_v2", |scenario| c_uint::try_from(scenario.devices.len()).ok());
    // SAFETY: `nvml.h` asks the caller for a live integer.
    unsafe { put(place, count) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetHandleByIndex_v2(index: c_uint, place: *mut nvmlDevice_t) -> nvmlReturn_t {
    let index = usize::try_from(index).ok();
    let found = answer_of("nvmlDeviceGetHandleByIndex_v2", index, |_| index.map(handle));
    // SAFETY: `nvml.h` asks the caller for a live handle.
    unsafe { put(place, found) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetEccMode(
    device: nvmlDevice_t,
    current: *mut nvmlEnableState_t,
    pending: *mut nvmlEnableState_t,
) -> nvmlReturn_t {
    let mode = answer_of("nvmlDeviceGetEccMode", index(device), |device| device.ecc);
    // SAFETY: `nvml.h` asks the caller for two live integers.
    unsafe {
        put(current, mode.map(|mode| mode.current.into())).max(put(pending, mode.map(|mode| mode.pending.into())))
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetMigMode(
    device: nvmlDevice_t,
    current: *mut c_uint,
    pending: *mut c_uint,
) -> nvmlReturn_t {
    let mode = answer_of("nvmlDeviceGetMigMode", index(device), |device| device.mig);
    // SAFETY: `nvml.h` asks the caller for two live integers.
    unsafe {
        put(current, mode.map(|mode| mode.current.into())).max(put(pending, mode.map(|mode| mode.pending.into())))
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetTotalEccErrors(
    device: nvmlDevice_t,
    kind: nvmlMemoryErrorType_t,
    counter: nvmlEccCounterType_t,
    place: *mut c_ulonglong,
) -> nvmlReturn_t {
    let count = answer_of("nvmlDeviceGetTotalEccErrors", index(device), |device| match (kind, counter) {
        (0, 0) => device.volatile_corrected,
        (1, 0) => device.volatile_uncorrected,
        (0, 1) => device.aggregate_corrected,
        (1, 1) => device.aggregate_uncorrected,
        _ => None,
    });
    // SAFETY: `nvml.h` asks the caller for a live integer.
    unsafe { put(place, count) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetRemappedRows(
    device: nvmlDevice_t,
    correctable: *mut c_uint,
    uncorrectable: *mut c_uint,
    pending: *mut c_uint,
    failure: *mut c_uint,
) -> nvmlReturn_t {
    let rows = answer_of("nvmlDeviceGetRemappedRows", index(device), |device| device.remapped_rows);
    // SAFETY: `nvml.h` asks the caller for four live integers.
    let codes = unsafe {
        [
            put(correctable, rows.map(|rows| rows.correctable)),
            put(uncorrectable, rows.map(|rows| rows.uncorrectable)),
            put(pending, rows.map(|rows| rows.pending.into())),
            put(failure, rows.map(|rows| rows.failure.into())),
        ]
    };
    codes.into_iter().max().unwrap_or(SUCCESS)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetTemperature(
    device: nvmlDevice_t,
    _sensor: nvmlTemperatureSensors_t,
    place: *mut c_uint,
) -> nvmlReturn_t {
    let temperature = answer_of("nvmlDeviceGetTemperature", index(device), |device| device.temperature);
    // SAFETY: `nvml.h` asks the caller for a live integer.
    unsafe { put(place, temperature) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetTemperatureThreshold(
    device: nvmlDevice_t,
    threshold: nvmlTemperatureThresholds_t,
    place: *mut c_uint,
) -> nvmlReturn_t {
    let limit = answer_of("nvmlDeviceGetTemperatureThreshold", index(device), |device| match threshold {
        0 => device.shutdown,
        1 => device.slowdown,
        _ => None,
    });
    // SAFETY: `nvml.h` asks the caller for a live integer.
    unsafe { put(place, limit) }
}
