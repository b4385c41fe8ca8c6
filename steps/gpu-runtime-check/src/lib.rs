//! `gpu.runtime.check@v1`: checks NVIDIA GPUs, their driver and their errors.
//!
//! Each check is a pure function of one reading and the thresholds. One reading cannot know rates and
//! history: how often clocks were held down, how fast the replay counter grows, whether an XID came
//! back after a reboot. These are not judged here.

mod driver;
mod heat;
mod input;
mod memory;
mod pcie;
mod version;
mod xid;

use fettle_step::{
    CallError, Failure,
    check::{self, Action, Finding, Severity},
    facts,
    gpu::{self, Device, Snapshot},
    report,
};
use input::{Check, Input, Output, Verdict};

const KIND: &str = "gpu.runtime.check@v1";
const NO_DRIVER: &str = "no NVIDIA driver";

fettle_step::step! {
    kind: KIND,
    summary: "Checks NVIDIA GPUs, their driver and their errors.",
    effect: Observe,
    requests: {
        gpu: "reads the state of the GPUs",
        facts: "reads the driver's errors from the kernel log",
    },
    run: run,
}

fn run(input: &Input) -> Result<Output, Failure> {
    let mut checks = input.checks.clone();
    checks.sort();
    checks.dedup();
    if checks.is_empty() {
        return Err(Failure::invalid_input("checks.empty", "`checks` names no check; leave it out for all of them"));
    }
    let snapshot = match gpu::read() {
        Ok(snapshot) => Ok(snapshot),
        Err(CallError { cause: gpu::Error::NotApplicable(reason), .. }) => return not_applicable(input, &reason),
        Err(CallError { cause: gpu::Error::Unresponsive(reason), .. }) => Err(unresponsive(&reason)),
        Err(error) => return Err(error.into()),
    };
    let mut findings = Vec::new();
    match &snapshot {
        Ok(snapshot) => checks.iter().for_each(|check| findings.extend(judge(*check, snapshot, input))),
        Err(finding) => findings.push(finding.clone()),
    }
    // Read even when the driver hangs: its XIDs say why.
    if checks.contains(&Check::Xid) {
        findings.extend(xids(input)?);
    }
    check::conclude(KIND, &findings, input.fail_on)?;
    Ok(output(snapshot.ok(), findings))
}

fn not_applicable(input: &Input, reason: &str) -> Result<Output, Failure> {
    if input.required {
        let message =
            format!("this node has {NO_DRIVER} ({reason}), and `required` is set; install one or choose other nodes");
        return Err(Failure::permanent("gpu.required", message));
    }
    report::info(&format!("not applicable: {NO_DRIVER} ({reason})"));
    Ok(Output {
        verdict: Verdict::NotApplicable,
        reason: Some(NO_DRIVER.to_owned()),
        driver_version: None,
        cuda_version: None,
        devices: Vec::new(),
        findings: Vec::new(),
    })
}

/// A driver that hangs is a sick one, not a missing one.
fn unresponsive(reason: &str) -> Finding {
    let observed = format!("the driver did not answer: {reason}");
    Finding::new("gpu.driver", Severity::Critical, observed, "a driver answers within its deadline", Action::Reboot)
}

fn judge(check: Check, snapshot: &Snapshot, input: &Input) -> Vec<Finding> {
    let devices = snapshot.devices.iter();
    let thresholds = &input.thresholds;
    match check {
        Check::Inventory => vec![driver::inventory(snapshot, input.expected_devices)],
        Check::Driver => driver::versions(snapshot, input.driver_minimum.as_ref(), input.cuda.as_ref()),
        Check::Ecc => devices.flat_map(|device| memory::ecc(device, input.ecc_required)).collect(),
        Check::RemappedRows => devices.filter_map(memory::remapped_rows).collect(),
        Check::Temperature => devices.map(|device| heat::temperature(device, thresholds)).collect(),
        Check::Throttle => devices.map(|device| heat::throttle(device, thresholds)).collect(),
        Check::Pcie => devices.flat_map(|device| pcie::judge(device, input.pcie_generation_minimum)).collect(),
        Check::Xid => Vec::new(),
    }
}

fn xids(input: &Input) -> Result<Vec<Finding>, Failure> {
    match facts::kernel_log() {
        Ok(messages) => Ok(xid::judge(&messages, &input.xids, &input.thresholds)),
        Err(CallError { cause: facts::Error::Unavailable(reason), .. }) => {
            Ok(vec![Finding::unknown("gpu.xid", format!("the kernel log cannot be read: {reason}"))])
        }
        Err(error) => Err(error.into()),
    }
}

fn output(snapshot: Option<Snapshot>, findings: Vec<Finding>) -> Output {
    let verdict = check::verdict(&findings).into();
    let Some(Snapshot { driver_version, cuda_version: (major, minor), devices, .. }) = snapshot else {
        return Output {
            verdict,
            reason: None,
            driver_version: None,
            cuda_version: None,
            devices: Vec::new(),
            findings,
        };
    };
    let devices = devices.into_iter().map(described).collect();
    let cuda_version = Some(format!("{major}.{minor}"));
    Output { verdict, reason: None, driver_version: Some(driver_version), cuda_version, devices, findings }
}

fn described(device: Device) -> input::Device {
    let Device { index, uuid, name, pci_bus_id, memory_total, .. } = device;
    input::Device { index, uuid, name, pci_bus_id, memory_total }
}

/// How findings name a GPU.
fn name(device: &Device) -> String {
    format!("GPU {} ({})", device.index, device.uuid)
}

#[cfg(test)]
mod tests;
