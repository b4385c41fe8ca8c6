//! What the steps that check a node answer. A check is a pure function of facts: the same facts give
//! the same findings, and what could not be read is `unknown`, never `ok`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Failure, report};

/// How bad it is. The worst finding is the verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// As it should be.
    Ok,
    /// Works, and wants a look.
    Warning,
    /// Could not be read, so nobody can say.
    Unknown,
    /// Do not use it as it is.
    Critical,
}

/// What to do about it. A suggestion: checks change nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// Nothing.
    None,
    /// A person looks at it; nothing has to stop.
    Investigate,
    /// Reset the GPU.
    ResetGpu,
    /// Reboot the node.
    Reboot,
    /// Take the node out of service.
    Drain,
    /// Have the hardware looked at.
    InspectHardware,
}

/// One thing that a check saw.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Finding {
    /// Which check: `memory`, `gpu.ecc`.
    pub check: String,
    /// How bad it is.
    pub severity: Severity,
    /// What was seen, and on what.
    pub observed: String,
    /// The rule that was applied, with its threshold.
    pub rule: String,
    /// What to do about it.
    pub action: Action,
}

/// When a step with findings fails instead of answering them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FailOn {
    /// When a finding is critical.
    #[default]
    Critical,
    /// When a finding is critical, unknown or a warning.
    Warning,
    /// Never.
    Never,
}

impl Finding {
    /// A finding of `check`.
    pub fn new(
        check: &str,
        severity: Severity,
        observed: impl Into<String>,
        rule: impl Into<String>,
        action: Action,
    ) -> Self {
        Self { check: check.to_owned(), severity, observed: observed.into(), rule: rule.into(), action }
    }

    /// All is well.
    pub fn ok(check: &str, observed: impl Into<String>, rule: impl Into<String>) -> Self {
        Self::new(check, Severity::Ok, observed, rule, Action::None)
    }

    /// It could not be read.
    pub fn unknown(check: &str, reason: impl Into<String>) -> Self {
        Self::new(
            check,
            Severity::Unknown,
            reason,
            "a fact that cannot be read is unknown, never ok",
            Action::Investigate,
        )
    }
}

/// The worst of the findings; unknown when there are none.
#[must_use]
pub fn verdict(findings: &[Finding]) -> Severity {
    findings.iter().map(|finding| finding.severity).max().unwrap_or(Severity::Unknown)
}

/// Logs what is not ok, and fails when `fail_on` says so. `kind` is the check's step kind.
///
/// # Errors
/// `permanent`, with every finding that reached the level.
pub fn conclude(kind: &str, findings: &[Finding], fail_on: FailOn) -> Result<(), Failure> {
    for finding in findings {
        let level = match finding.severity {
            Severity::Ok => continue,
            Severity::Warning | Severity::Unknown => report::Level::Warn,
            Severity::Critical => report::Level::Error,
        };
        report::log(level, &sentence(finding));
    }
    let least = match fail_on {
        FailOn::Critical => Severity::Critical,
        FailOn::Warning => Severity::Warning,
        FailOn::Never => return Ok(()),
    };
    let reached: Vec<&Finding> = findings.iter().filter(|finding| finding.severity >= least).collect();
    if reached.is_empty() {
        return Ok(());
    }
    let listed: Vec<String> = reached.iter().map(|finding| sentence(finding)).collect();
    let message = format!("{kind} found {} of the node not in order: {}", count(reached.len()), listed.join("; "));
    Err(Failure::permanent("check.failed", message))
}

fn count(things: usize) -> String {
    if things == 1 { "1 thing".to_owned() } else { format!("{things} things") }
}

fn sentence(finding: &Finding) -> String {
    let Finding { check, severity, observed, rule, action } = finding;
    format!("{check} is {}: {observed} ({rule}); {}", name(*severity), advice(*action))
}

const fn name(severity: Severity) -> &'static str {
    match severity {
        Severity::Ok => "ok",
        Severity::Warning => "a warning",
        Severity::Unknown => "unknown",
        Severity::Critical => "critical",
    }
}

const fn advice(action: Action) -> &'static str {
    match action {
        Action::None => "nothing to do",
        Action::Investigate => "look at it",
        Action::ResetGpu => "reset the GPU",
        Action::Reboot => "reboot the node",
        Action::Drain => "drain the node",
        Action::InspectHardware => "have the hardware inspected",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(severities: &[Severity]) -> Vec<Finding> {
        severities.iter().map(|severity| Finding::new("memory", *severity, "seen", "rule", Action::Drain)).collect()
    }

    #[test]
    fn the_worst_finding_is_the_verdict() {
        use Severity::{Critical, Ok, Unknown, Warning};
        for (severities, expected) in [
            (&[][..], Unknown),
            (&[Ok, Ok], Ok),
            (&[Warning, Ok], Warning),
            (&[Unknown, Warning], Unknown),
            (&[Unknown, Critical, Ok], Critical),
        ] {
            assert_eq!(verdict(&findings(severities)), expected);
        }
    }

    #[test]
    fn a_check_fails_at_the_level_that_was_asked_for() {
        use Severity::{Critical, Ok, Unknown, Warning};
        for (severity, critical, warning) in
            [(Ok, true, true), (Warning, true, false), (Unknown, true, false), (Critical, false, false)]
        {
            let findings = findings(&[severity]);
            assert_eq!(conclude("health.check@v1", &findings, FailOn::Critical).is_ok(), critical);
            assert_eq!(conclude("health.check@v1", &findings, FailOn::Warning).is_ok(), warning);
            assert!(conclude("health.check@v1", &findings, FailOn::Never).is_ok());
        }
    }

    #[test]
    fn a_failure_lists_the_findings() {
        let failure = conclude("health.check@v1", &findings(&[Severity::Critical, Severity::Ok]), FailOn::Critical);
        assert_eq!(
            failure.unwrap_err().message,
            "health.check@v1 found 1 thing of the node not in order: memory is critical: seen (rule); drain the node"
        );
    }
}
