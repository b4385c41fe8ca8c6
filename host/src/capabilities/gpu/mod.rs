//! `gpu`: NVML, asked by a child process with a deadline. A sick driver hangs the child, which is
//! killed; the host goes on.

mod calls;
pub mod nvml;

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use fettle_model::grant::GpuGrant;

use super::{
    Node,
    denials::Denials,
    exec::{Confinement, Program, Spawner, Termination},
};
use crate::sandbox::bindings::fettle::gpu::gpu as wit;

/// How long a snapshot may take.
const DEADLINE: Duration = Duration::from_secs(10);
/// Most bytes of a snapshot.
const SNAPSHOT_LIMIT: usize = 1 << 20;

/// How GPUs are asked.
#[derive(Clone)]
pub struct Probe {
    /// A program of ours that knows the hidden command `nvml-snapshot`.
    pub program: PathBuf,
    /// Another library than the system's libnvidia-ml.so.1.
    pub library: Option<PathBuf>,
    /// The child's whole environment. Empty on a node; the stand-in library of the tests is told its
    /// scenario here.
    pub environment: BTreeMap<String, String>,
    /// Starts the child.
    pub spawner: Spawner,
    /// How long a snapshot may take.
    pub deadline: Duration,
}

/// Whether one step may ask.
#[derive(Clone, Default)]
pub struct Configured(Option<Probe>);

/// The state of one attempt.
#[derive(Default)]
pub struct Gpu {
    probe: Option<Probe>,
    denials: Denials,
}

impl Probe {
    /// A probe with an empty environment and the default deadline.
    #[must_use]
    pub const fn new(program: PathBuf, library: Option<PathBuf>, spawner: Spawner) -> Self {
        Self { program, library, environment: BTreeMap::new(), spawner, deadline: DEADLINE }
    }

    /// Asks the driver.
    ///
    /// # Errors
    /// When there is no driver, or it does not answer.
    pub async fn snapshot(&self) -> Result<nvml::Snapshot, nvml::Error> {
        let mut arguments = vec!["nvml-snapshot".to_owned()];
        if let Some(library) = &self.library {
            arguments.extend(["--library".to_owned(), library.to_string_lossy().into_owned()]);
        }
        let program = Program {
            executable: self.program.to_string_lossy().into_owned(),
            arguments,
            environment: self.environment.clone(),
            secrets: Vec::new(),
            directory: "/".to_owned(),
            timeout: self.deadline,
            capture_stdout: SNAPSHOT_LIMIT,
            capture_stderr: 4 << 10,
            confinement: Confinement::default(),
        };
        let finished = self.spawner.run(program).await.map_err(|error| nvml::Error::Unresponsive(error.to_string()))?;
        match finished.termination {
            Termination::TimedOut => {
                Err(nvml::Error::Unresponsive(format!("the driver did not answer within {:?}", self.deadline)))
            }
            Termination::Signaled(signal) => {
                Err(nvml::Error::Unresponsive(format!("the driver's library crashed with signal {signal}")))
            }
            Termination::Exited(_) => nvml::decode(&finished.stdout.bytes).unwrap_or_else(|| {
                let said = String::from_utf8_lossy(&finished.stderr.bytes).trim().to_owned();
                Err(nvml::Error::Unresponsive(format!("the process that asks the driver answered nothing: {said}")))
            }),
        }
    }
}

impl Configured {
    pub(super) fn new(grant: Option<&GpuGrant>, node: &Node) -> Self {
        Self(grant.filter(|grant| grant.read).map(|_| node.gpu.clone()))
    }

    pub(super) fn prepare(&self, denials: Denials) -> Gpu {
        Gpu { probe: self.0.clone(), denials }
    }
}

impl Gpu {
    pub(super) async fn read(&mut self) -> Result<wit::Snapshot, wit::Error> {
        let probe = self.probe.as_ref().ok_or_else(|| {
            self.denials.note("gpu.read", ["false"], "true");
            wit::Error::AccessDenied
        })?;
        match probe.snapshot().await {
            Ok(snapshot) => Ok(snapshot.into()),
            Err(nvml::Error::NotApplicable(reason)) => Err(wit::Error::NotApplicable(reason)),
            Err(nvml::Error::Unresponsive(reason)) => Err(wit::Error::Unresponsive(reason)),
        }
    }
}

impl From<nvml::Snapshot> for wit::Snapshot {
    fn from(snapshot: nvml::Snapshot) -> Self {
        Self {
            driver_version: snapshot.driver_version,
            nvml_version: snapshot.nvml_version,
            cuda_version: snapshot.cuda_version,
            devices: snapshot.devices.into_iter().map(Into::into).collect(),
        }
    }
}

impl From<nvml::Device> for wit::Device {
    fn from(device: nvml::Device) -> Self {
        Self {
            index: device.index,
            uuid: device.uuid,
            name: device.name,
            pci_bus_id: device.pci_bus_id,
            vbios_version: device.vbios_version,
            memory_total: device.memory_total,
            memory_used: device.memory_used,
            ecc: device.ecc.map(|ecc| wit::Ecc {
                enabled: ecc.enabled,
                pending_enabled: ecc.pending_enabled,
                volatile_corrected: ecc.volatile_corrected,
                volatile_uncorrected: ecc.volatile_uncorrected,
                aggregate_corrected: ecc.aggregate_corrected,
                aggregate_uncorrected: ecc.aggregate_uncorrected,
            }),
            remapped_rows: device.remapped_rows.map(|rows| wit::RemappedRows {
                correctable: rows.correctable,
                uncorrectable: rows.uncorrectable,
                pending: rows.pending,
                failure: rows.failure,
            }),
            temperature: device.temperature.map(|temperature| wit::Temperature {
                current: temperature.current,
                slowdown: temperature.slowdown,
                shutdown: temperature.shutdown,
            }),
            throttle_reasons: device.throttle_reasons,
            pcie: wit::Pcie {
                generation: device.pcie.generation,
                maximum_generation: device.pcie.maximum_generation,
                width: device.pcie.width,
                maximum_width: device.pcie.maximum_width,
                replay_counter: device.pcie.replay_counter,
            },
            persistence_mode: device.persistence_mode,
            mig_enabled: device.mig_enabled,
            power_usage: device.power_usage,
            unreadable: device.unreadable,
        }
    }
}
