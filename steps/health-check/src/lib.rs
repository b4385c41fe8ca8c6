//! `health.check@v1`: checks system, memory, file systems, kernel log and processes.
//!
//! Each check is a pure function of one fact and the thresholds.

mod filesystems;
mod input;
mod kernel_log;
mod memory;
mod percent;
mod processes;
mod system;

use fettle_step::{
    CallError, Failure,
    check::{self, Finding},
    facts::{self, Error},
};
use input::{Check, Input, Output};

const KIND: &str = "health.check@v1";

fettle_step::step! {
    kind: KIND,
    summary: "Checks system, memory, file systems, kernel log and processes.",
    effect: Observe,
    requests: { facts: "reads the facts that the checks judge" },
    run: run,
}

fn run(input: &Input) -> Result<Output, Failure> {
    let mut checks = input.checks.clone();
    checks.sort();
    checks.dedup();
    if checks.is_empty() {
        return Err(Failure::invalid_input("checks.empty", "`checks` names no check; leave it out for all of them"));
    }
    let mut findings = Vec::new();
    let mut uptime_seconds = None;
    for check in checks {
        let thresholds = &input.thresholds;
        findings.extend(match check {
            Check::System => judge("system", facts::system(), |system| {
                uptime_seconds = Some(system.uptime_seconds);
                system::judge(&system, thresholds)
            }),
            Check::Memory => judge("memory", facts::memory(), |memory| memory::judge(&memory, thresholds)),
            Check::Filesystems => {
                judge("filesystems", facts::filesystems(), |filesystems| filesystems::judge(&filesystems, thresholds))
            }
            Check::KernelLog => {
                judge("kernel_log", facts::kernel_log(), |log| kernel_log::judge(&log, uptime_seconds, thresholds))
            }
            Check::Processes => {
                judge("processes", facts::processes(), |processes| processes::judge(&processes, thresholds))
            }
        }?);
    }
    check::conclude(KIND, &findings, input.fail_on)?;
    Ok(Output { verdict: check::verdict(&findings), findings })
}

/// Judges a fact. One that the node does not offer is unknown; one that was not granted is a mistake in
/// the definition, and fails.
fn judge<T>(
    check: &str,
    fact: facts::Result<T>,
    judge: impl FnOnce(T) -> Vec<Finding>,
) -> Result<Vec<Finding>, Failure> {
    match fact {
        Ok(fact) => Ok(judge(fact)),
        Err(CallError { cause: Error::Unavailable(reason), .. }) => {
            Ok(vec![Finding::unknown(check, format!("the node does not offer this fact: {reason}"))])
        }
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests;
