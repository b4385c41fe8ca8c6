//! A shared library with NVML's C symbols that plays a scenario, so that everything above NVML can be
//! tested where there is no GPU, and with GPUs that nobody can order: broken ones.
//!
//! The scenario is a JSON file, named by the environment variable [`VARIABLE`]:
//!
//! ```json
//! {
//!   "driver_version": "570.86.15",
//!   "devices": [{ "uuid": "GPU-1", "temperature": 40, "errors": { "nvmlDeviceGetName": 15 } }],
//!   "errors": { "nvmlSystemGetNVMLVersion": 999 },
//!   "hang": "nvmlDeviceGetTemperature"
//! }
//! ```
//!
//! What a scenario leaves out is answered with `NVML_ERROR_NOT_SUPPORTED`. `errors` gives a call, or a
//! call about one device, an error code. `hang` and `crash` name the call that never answers or ends the
//! process; `true` stands for the first one, `nvmlInit_v2`.

mod calls;
mod scenario;

use std::path::PathBuf;

/// The environment variable that names the scenario file.
pub const VARIABLE: &str = "FETTLE_NVML_SCENARIO";

/// The shared library, for a test whose package depends on this one: cargo puts it beside the test.
///
/// # Panics
/// When it is not there.
#[must_use]
#[expect(clippy::panic, reason = "a test without its library should stop")]
pub fn library() -> PathBuf {
    let beside = std::env::current_exe().ok().and_then(|test| Some(test.parent()?.join("libfettle_nvml_scenario.so")));
    match beside {
        Some(path) if path.is_file() => path,
        found => panic!(
            "the NVML of the tests is not at {found:?}; make `fettle-nvml-scenario` a dev-dependency of this package"
        ),
    }
}
