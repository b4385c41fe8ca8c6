//! Inventory, driver and CUDA.

use fettle_step::{
    check::{Action, Finding, Severity},
    gpu::Snapshot,
};

use crate::version::Version;

const INVENTORY: &str = "gpu.inventory";
const DRIVER: &str = "gpu.driver";

/// The oldest driver branch that runs programs of a CUDA major version, as NVIDIA publishes it.
const CUDA_NEEDS: [(u32, u32); 3] = [(13, 580), (12, 525), (11, 450)];

/// Whether the GPUs are there.
pub(crate) fn inventory(snapshot: &Snapshot, expected: Option<u32>) -> Finding {
    let count = snapshot.devices.len();
    let observed = format!("{count} GPUs");
    let (fits, rule) = match expected {
        Some(expected) => (u32::try_from(count) == Ok(expected), format!("`expected_devices` is {expected}")),
        None => (count > 0, "a node with a driver has at least one GPU".to_owned()),
    };
    if fits {
        Finding::ok(INVENTORY, observed, rule)
    } else {
        Finding::new(INVENTORY, Severity::Critical, observed, rule, Action::InspectHardware)
    }
}

/// Whether the driver is new enough for what was asked for.
pub(crate) fn versions(snapshot: &Snapshot, minimum: Option<&Version>, cuda: Option<&Version>) -> Vec<Finding> {
    let (major, minor) = snapshot.cuda_version;
    let seen = format!("driver {}, which serves CUDA {major}.{minor}", snapshot.driver_version);
    let Some(driver) = Version::parse(&snapshot.driver_version) else {
        return vec![Finding::unknown(
            DRIVER,
            format!("the driver version `{}` cannot be read", snapshot.driver_version),
        )];
    };
    let mut findings = Vec::new();
    if let Some(minimum) = minimum {
        findings.push(judge(driver.is_at_least(minimum), &seen, format!("the driver is at least {minimum}")));
    }
    if let Some(cuda) = cuda {
        findings.push(serves(&driver, snapshot.cuda_version, cuda, &seen));
    }
    if findings.is_empty() {
        findings.push(Finding::ok(
            DRIVER,
            seen,
            "the driver answers; neither `driver_minimum` nor `cuda` asks for more",
        ));
    }
    findings
}

/// Within a major version an older driver runs newer programs, with limits: hence only a warning.
fn serves(driver: &Version, served: (u32, u32), cuda: &Version, seen: &str) -> Finding {
    let needed = CUDA_NEEDS.iter().find(|(major, _)| *major == cuda.major()).map(|(_, branch)| *branch);
    let rule = match needed {
        Some(branch) => format!("CUDA {cuda} needs driver {branch} or newer, and one that serves its major version"),
        None => format!("CUDA {cuda} needs a driver that serves its major version"),
    };
    if served.0 < cuda.major() || needed.is_some_and(|branch| driver.major() < branch) {
        return judge(false, seen, rule);
    }
    let newest = Version::parse(&format!("{}.{}", served.0, served.1));
    if newest.is_some_and(|newest| newest.is_at_least(cuda)) {
        return judge(true, seen, rule);
    }
    let rule = format!(
        "programs of CUDA {cuda} run on this driver, but without what came after CUDA {}.{}",
        served.0, served.1
    );
    Finding::new(DRIVER, Severity::Warning, seen, rule, Action::Investigate)
}

fn judge(fits: bool, seen: &str, rule: String) -> Finding {
    if fits {
        Finding::ok(DRIVER, seen, rule)
    } else {
        Finding::new(DRIVER, Severity::Critical, seen, rule, Action::Drain)
    }
}
